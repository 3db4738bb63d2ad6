"""splits.py: the name of a split, and the part of it that is meant."""

import pytest

from transformer.data.files.splits import folder_name, parse_split, part_of

SPLITS = {
    "train": ("train", 0.0, 1.0),
    "train[:]": ("train", 0.0, 1.0),
    "train[:90%]": ("train", 0.0, 0.9),
    "train[90%:]": ("train", 0.9, 1.0),
    "train[10%:90%]": ("train", 0.1, 0.9),
    "train[0%:100%]": ("train", 0.0, 1.0),
    "my-split.v2[:5%]": ("my-split.v2", 0.0, 0.05),
}
BAD = [
    "train[", "train]", "train[]", "train[90%]", "train[:90]", "train[:0.9]", "train[:90.5%]",
    "train[:0%]", "train[:101%]", "train[50%:50%]", "train[90%:10%]", "train[100%:]",
    "train[-10%:]", "train[:90%]x", "[:90%]", "train[:90%][:50%]", "",
]  # fmt: skip


@pytest.mark.parametrize(("text", "meant"), SPLITS.items())
def test_a_part_is_named_as_in_tfds(text, meant):
    """Catches a bound that is read as the other one, and a missing one that is not the end."""
    assert parse_split(text) == meant


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_split_is_refused_in_one_sentence(text):
    """Catches an empty part, and a slice that is taken for a part of the name."""
    with pytest.raises(ValueError, match=r"^A split is NAME, [^\n]*, not '.*'\.$") as caught:
        parse_split(text)
    assert f"'{text}'" in str(caught.value)


@pytest.mark.parametrize("number", [0, 1, 7, 99, 100, 1115394])
def test_parts_are_disjoint_and_together_everything(number):
    """Catches an item that two parts share, or that neither has, wherever the cut is."""
    items = range(number)
    for percent in range(1, 100):
        _, *first = parse_split(f"train[:{percent}%]")
        _, *last = parse_split(f"train[{percent}%:]")
        assert len(part_of(items, *first)) == number * percent // 100
        assert part_of(items, *first) == items[: number * percent // 100]
        assert part_of(items, *last) == items[number * percent // 100 :]
    fifths = [part_of(items, *parse_split(f"t[{a}%:{a + 20}%]")[1:]) for a in range(0, 100, 20)]
    assert [i for part in fifths[:5] for i in part] == list(items)


def test_a_part_of_a_text_is_a_text():
    """Catches a part that only lists have."""
    assert part_of("abcdefghij", 0.1, 0.9) == "bcdefghi"


def test_the_name_of_a_folder_is_one_name():
    """Catches brackets and slashes in a path, and the scores of a part written over another's."""
    names = [folder_name(t) for t in ("train", "t[90%:]", "t[:90%]", "t[10%:90%]", "a/b", "../a")]
    assert names == ["train", "t_90_", "t_0_90_", "t_10_90_", "a_b", ".._a"]
