"""labelled_text.py: LABEL<tab>TEXT in, texts and labels out; nothing is lost or moved."""

import gzip

import pytest

from transformer.config import DataConfig
from transformer.data.files.labelled_text import load_evaluation_examples, load_training_examples


def corpus_of(folder, **files):
    """A `DataConfig` of a folder with train.tsv and the like; str or bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (folder / f"{name}.tsv").write_bytes(data)
    return DataConfig(corpus=str(folder))


def test_the_first_tab_divides_a_line(tmp_path):
    """Catches a text cut at its own tab, sides exchanged, and spaces that make another class."""
    config = corpus_of(tmp_path, train="a b\tone\ttwo\r\n c \t three\u2028\nc\tfour")
    texts, labels, _ = load_training_examples(config)
    assert texts == ["one\ttwo", " three\u2028", "four"]
    assert labels == ["a b", "c", "c"]


@pytest.mark.parametrize("line", ["no tab", "", "\ttext", " \ttext", "label text"])
def test_a_line_without_a_label_is_refused_with_its_number(line, tmp_path):
    """Catches a class "", and a line that is left out and moves the numbers of the others."""
    config = corpus_of(tmp_path, train=f"a\tone\n{line}\nb\ttwo\n")
    message = rf"^\S*train\.tsv line 2 must be LABEL<tab>TEXT, not '{line}'\.$"
    with pytest.raises(ValueError, match=message):
        load_training_examples(config)
    with pytest.raises(ValueError, match=message):
        load_evaluation_examples(config, "train", ["a", "b"])


def test_a_message_shows_the_beginning_of_a_long_line(tmp_path):
    """Catches a megabyte of text on the screen."""
    config = corpus_of(tmp_path, train="x" * 100_000)
    with pytest.raises(ValueError, match=r"line 1 must be .*'x{60}'\.$"):
        load_training_examples(config)


def test_training_leaves_out_empty_texts_and_counts_them(tmp_path):
    """Catches labels that go to the wrong texts once some are left out, and silence about it."""
    config = corpus_of(tmp_path, train="b\t\na\tone\nc\t \nb\ttwo\n")
    expected = ["one", "two"], ["a", "b"], {"an empty text": 2}
    assert load_training_examples(config) == expected
    corpus_of(tmp_path, train="a\tone\nb\ttwo\n")
    assert not load_training_examples(config).problems


def test_evaluation_keeps_every_sentence(tmp_path):
    """Catches an accuracy over fewer sentences than the split has."""
    config = corpus_of(tmp_path, test="a\tone\nb\t\na\ttwo\n")
    examples = load_evaluation_examples(config, "test", ["a", "b", "c"])
    assert examples == (["one", "", "two"], ["a", "b", "a"])


def test_a_label_unknown_to_training_is_refused(tmp_path):
    """Catches a KeyError in mid-run; the sentence names the split, its line and the classes."""
    config = corpus_of(tmp_path, validation="a\tone\nneutral\ttwo\n")
    with pytest.raises(ValueError, match=r"^[^\n]*\.$") as caught:
        load_evaluation_examples(config, "validation", ["a", "b"])
    for part in ("'validation'", "'neutral'", "sentence 2)", "a, b.", str(tmp_path)):
        assert part in str(caught.value)


@pytest.mark.parametrize("content", ["", "a\tone\na\ttwo\n", "a\tone\nb\t\n"])
def test_less_than_two_classes_are_refused(content, tmp_path):
    """Catches a run that learns to say always the same; also: a class of empty texts only."""
    config = corpus_of(tmp_path, train=content)
    kept = sum(bool(line.split("\t")[1]) for line in content.splitlines())
    message = rf"'train' of .* at least two classes, but has {kept} sentences of {int(kept > 0)}\.$"
    with pytest.raises(ValueError, match=message):
        load_training_examples(config)


def test_nothing_to_score_is_an_error(tmp_path):
    """Catches a division by no sentences, of a file and of a part of one."""
    config = corpus_of(tmp_path, test="", train="a\tone\n")
    for split in ("test", "train[:50%]"):
        with pytest.raises(
            ValueError, match=r"^The split '.*' of .* is empty: nothing to score\.$"
        ):
            load_evaluation_examples(config, split, ["a"])


def test_a_missing_folder_or_file_says_what_the_folder_holds(tmp_path):
    """Catches "No such file or directory" without a way out."""
    config = corpus_of(tmp_path, dev="a\tone\n")
    with pytest.raises(ValueError, match=r"must hold train\.tsv .*; it holds dev\.tsv\.$"):
        load_training_examples(config)
    with pytest.raises(ValueError, match=r"must hold test\.tsv .*no such folder .*--corpus\.$"):
        load_evaluation_examples(DataConfig(corpus=str(tmp_path / "none")), "test", ["a"])


def test_parts_of_a_split_are_disjoint_and_together_everything(tmp_path):
    """Catches a validation sentence that is trained on."""
    lines = [(f"text {i}", "ab"[i % 2]) for i in range(25)]
    data = "".join(f"{label}\t{text}\n" for text, label in lines).encode()
    (tmp_path / "train.tsv.gz").write_bytes(gzip.compress(data))
    config = DataConfig(corpus=str(tmp_path), train_split="train[:90%]")
    texts, labels, _ = load_training_examples(config)
    first = list(zip(texts, labels, strict=True))
    last = list(zip(*load_evaluation_examples(config, "train[90%:]", "ab"), strict=True))
    assert len(first) == 22 and first + last == lines


def test_bytes_that_are_not_utf8_are_reported(tmp_path):
    """Catches a Latin-1 file that is trained on, or scored, without a word."""
    config = corpus_of(tmp_path, train=b"a\t\xe4\nb\ttwo\n")
    texts, _, problems = load_training_examples(config)
    assert texts == ["\ufffd", "two"] and "not UTF-8" in next(iter(problems))
    with pytest.warns(UserWarning, match=r"not UTF-8.*train\.tsv line 1"):
        load_evaluation_examples(config, "train", ["a", "b"])
