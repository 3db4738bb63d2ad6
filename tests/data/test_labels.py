"""labels.py: names of classes to numbers, the same in every run that loads them."""

import pytest

from transformer.data.files.labels import FILE, Labels


def test_classes_are_in_order_and_numbers_as_numbers():
    """Catches "10" before "2", a class twice, and an order that depends on the text's."""
    for labels, names in (("b a b C", "C a b"), ("x 10 9 10", "9 10 x"), ("2x 10x", "10x 2x")):
        for ordered in (labels.split(), labels.split()[::-1]):
            assert Labels.from_labels(ordered).names == names.split()


def test_a_label_is_the_number_of_its_name():
    """Catches numbers by occurrence, an array that the device would have to convert, a KeyError."""
    numbers = Labels(["a", "b", "c"]).encode(["c", "a", "c", "b"])
    assert numbers.tolist() == [2, 0, 2, 1] and numbers.dtype == "int32"
    assert Labels(["a"]).encode([]).shape == (0,)
    with pytest.raises(ValueError, match=r"^'neutral' is not one of the classes neg, pos\.$"):
        Labels(["neg", "pos"]).encode(["pos", "neutral"])


def test_what_is_saved_is_loaded(tmp_path):
    """Catches another order, a tuple that is not equal to its list, and text that is not ASCII."""
    labels = Labels.from_labels(["süß", "10", "2", 'a "b"', "\u2028"], (8, 8, 1))
    labels.save(tmp_path)
    assert Labels.load(tmp_path) == labels and labels.image_shape == [8, 8, 1]


def test_a_damaged_file_is_refused_in_one_sentence(tmp_path):
    """Catches a stack trace, and classes that are the letters of a word."""
    wrong = [b"", b"[]", b"{}", b'{"names": ["a"], "other": 1}', b'{"names": "ab"}']
    for data in [*wrong, b'{"names": ["a", "a"]}', b'{"names": ["\xff"]}']:
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(ValueError, match=rf"^\S*{FILE} does not hold the classes: .*\.$"):
            Labels.load(tmp_path)
