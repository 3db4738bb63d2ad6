"""texts.py, encoded_texts.py: splits of texts, with labels or without, as an encoder reads them."""

import gzip

import numpy as np
import pytest

from tests.data.corpus_files import write
from tests.data.test_text_files import PACK
from tests.helpers.imported import GOLDEN
from transformer.config import DataConfig, ModelConfig
from transformer.data.files.texts import (
    load_evaluation_examples,
    load_labelled_words,
    load_text_lines,
    load_training_examples,
)
from transformer.data.rows.encoded_texts import (
    encode_texts,
    encode_words,
    label_first_pieces,
    sides,
)
from transformer.data.rows.images import load_images
from transformer.data.tokenizers.lists import CharacterTokenizer, PiecesTokenizer
from transformer.interop.huggingface.tokens import read_tokenizer


def corpus_of(folder, **files):
    return DataConfig(corpus=write(folder, **files))


def lines_of(corpus, split="train"):
    return load_text_lines(DataConfig(corpus=str(corpus)), split).lines


READERS = {  # of a split: (the ending of its file, (config, split) -> a list of what it holds)
    "text": ("txt", lambda config, split: load_text_lines(config, split).lines),
    "labelled": (
        "tsv",
        lambda config, split: [*zip(*load_evaluation_examples(config, split, "01"), strict=True)],
    ),
    "words": ("conll", lambda config, split: load_labelled_words(config, split)[0]),
    "images": ("npz", lambda config, split: load_images(config, split)[1]),
}


@pytest.mark.parametrize(("ending", "load"), READERS.values(), ids=READERS)
def test_a_missing_folder_or_file_says_what_the_folder_holds(ending, load, tmp_path):
    """Catches "No such file or directory" without a way out."""
    config = corpus_of(tmp_path, dev__x="")
    with pytest.raises(ValueError, match=rf"must hold train\.{ending} .*; it holds dev\.x\.$"):
        load(config, "train")
    with pytest.raises(ValueError, match=rf"hold test\.{ending} .*no such folder .*--corpus\.$"):
        load(DataConfig(corpus=str(tmp_path / "none")), "test")


@pytest.mark.parametrize("kind", ["labelled", "words", "images"])
def test_parts_of_a_split_are_disjoint_and_together_everything(kind, tmp_path):
    """Catches a validation example that is trained on, and labels cut elsewhere than texts."""
    labels, load = [str(n % 2) for n in range(25)], READERS[kind][1]
    tsv = "".join(f"{label}\ttext {n}\n" for n, label in enumerate(labels))
    conll = "".join(f"w{n} {label}\n\n" for n, label in enumerate(labels))
    config = corpus_of(tmp_path, train__conll=conll, train__tsv__gz=gzip.compress(tsv.encode()))
    np.savez(tmp_path / "train.npz", images=np.zeros((25, 2, 2)), labels=labels)
    first, last = load(config, "train[:90%]"), load(config, "train[90%:]")
    assert len(first) == 22 and first + last == load(config, "train")


def test_bad_bytes_are_counted(tmp_path):
    """Catches a Latin-1 file that is trained on, or scored, without a word."""
    files = {"train__tsv": b"a\t\xe4\nb\ttwo\n", "train__conll": b"\xe4 a\n"}
    config = corpus_of(tmp_path, train__txt=b"ok\n\xe4\n", **files)
    lines, repairs = load_text_lines(config, "train")
    texts, _, problems = load_training_examples(config)
    assert lines == ["ok", "\ufffd"] and texts == ["\ufffd", "two"]
    for found in (repairs, problems):
        assert [*found.values()] == [1] and "not UTF-8" in next(iter(found))
    for load, name in ((load_evaluation_examples, "tsv"), (load_labelled_words, "conll")):
        with pytest.warns(UserWarning, match=rf"not UTF-8.*train\.{name} line 1"):
            load(config, "train", ["a", "b"])


# ---- one long text


@pytest.mark.parametrize("ending", PACK)
def test_a_file_or_a_folder(ending, tmp_path):
    """Catches a packed file that is read as it is, splits that are mixed up, an empty line that is
    lost or added at the end, and training, validation and test that are one file."""
    path = tmp_path / f"train.txt{ending}"
    path.write_bytes(PACK[ending]("\n\n ä \r\nb\u2028c\n\n\n".encode()))
    (tmp_path / "test.txt").write_text("other\n")
    assert lines_of(path, "all") == lines_of(tmp_path) == ["", "", " ä ", "b\u2028c", "", ""]
    assert lines_of(tmp_path, "test") == ["other"]
    with pytest.raises(ValueError, match=r"is one file: its split is 'all', or a .* not 'val'"):
        lines_of(path, "val")


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_part_is_counted_in_characters(end, tmp_path):
    """Catches nanoGPT's 90/10 counted in lines or bytes, or without the last line feed."""
    text = "".join("ä" * (i % 13) + "\n" for i in range(300)) + f"x{end}"
    path = tmp_path / "input.txt"
    path.write_text(text, encoding="utf-8")
    whole = text.removesuffix("\n") + "\n"
    for percent in (10, 99):
        cut = int(len(whole) * percent / 100)
        first, last = lines_of(path, f"all[:{percent}%]"), lines_of(path, f"all[{percent}%:]")
        assert "\n".join(first) == whole[:cut].removesuffix("\n")
        assert "\n".join(last) == whole[cut:].removesuffix("\n")


@pytest.mark.parametrize("text", ["", "\n", " \n\t\n", "words" + "\n" * 95])
def test_an_empty_text_is_refused(text, tmp_path):
    """Catches a run over no text, and an error that speaks of array shapes; also of a part."""
    (tmp_path / "train.txt").write_text(text)
    split = "train[90%:]" if text.strip() else "train"
    with pytest.raises(ValueError, match=r"^The split 'train.*' of \S*train\.txt holds no text\.$"):
        lines_of(tmp_path, split)


# ---- texts with a label


def test_the_first_tab_divides_a_line(tmp_path):
    """Catches a text cut at its own tab, sides exchanged, and spaces that make another class."""
    config = corpus_of(tmp_path, train__tsv="a b\tone\ttwo\r\n c \t three\u2028\nc\tfour")
    texts = ["one\ttwo", " three\u2028", "four"]
    assert load_training_examples(config) == (texts, ["a b", "c", "c"], {})


@pytest.mark.parametrize("line", ["", " \ttext", "x" * 100_000])
def test_a_line_without_a_label_is_refused_with_its_number(line, tmp_path):
    """Catches a class "", a line that is left out, and a megabyte of text on the screen."""
    config = corpus_of(tmp_path, train__tsv=f"a\tone\n{line}\nb\ttwo\n")
    message = rf"^\S*train\.tsv line 2 must be LABEL<tab>TEXT, not '{line[:60]}'\.$"
    with pytest.raises(ValueError, match=message):
        load_training_examples(config)


def test_training_leaves_out_empty_texts_and_evaluation_keeps_every_sentence(tmp_path):
    """Catches labels at the wrong texts, and an accuracy over fewer sentences than there are."""
    config = corpus_of(tmp_path, train__tsv="b\t\na\tone\nc\t \nb\ttwo\n", test__tsv="a\tx\nb\t\n")
    assert load_training_examples(config) == (["one", "two"], ["a", "b"], {"an empty text": 2})
    examples = load_evaluation_examples(config, "test", ["a", "b", "c"])
    assert examples == (["x", ""], ["a", "b"])


def test_a_label_unknown_to_training_is_refused(tmp_path):
    """Catches a KeyError in mid-run; the sentence names the split, its line and the classes."""
    config = corpus_of(tmp_path, validation__tsv="a\tone\nneutral\ttwo\n")
    said = rf"'validation' of {tmp_path} has .*'neutral' \(its sentence 2\), but .* a, b\.$"
    with pytest.raises(ValueError, match=said):
        load_evaluation_examples(config, "validation", ["a", "b"])


@pytest.mark.parametrize("content", ["", "a\tone\na\ttwo\n", "a\tone\nb\t\n"])
def test_less_than_two_classes_and_nothing_to_score_are_refused(content, tmp_path):
    """Catches a run that learns to say always the same; also: a class of empty texts only."""
    config = corpus_of(tmp_path, train__tsv=content)
    kept = sum(bool(line.split("\t")[1]) for line in content.splitlines())
    message = rf"'train' of .* at least two classes, but has {kept} sentences of {int(kept > 0)}\.$"
    with pytest.raises(ValueError, match=message):
        load_training_examples(config)
    with pytest.raises(ValueError, match=r"^The split '.*' of .* is empty: nothing to score\.$"):
        load_evaluation_examples(config, "train[:10%]", ["a"])


# ---- words with a label

CONLL = "EU NNP B-ORG\nrejects VBZ O\n\n\n-x-\tO\n \nPeter NNP B-PER\nBlackburn NNP I-PER"


def test_columns_and_empty_lines(tmp_path):
    """Catches the second column for the label, and a last text that no empty line ends."""
    texts, labels, _ = load_labelled_words(corpus_of(tmp_path, train__conll=CONLL), "train")
    assert texts == ["EU rejects", "-x-", "Peter Blackburn"]
    assert labels == ["B-ORG O", "O", "B-PER I-PER"]


@pytest.mark.parametrize(
    ("text", "classes", "message"),
    [
        ("a O\nb\n", [], r"train\.conll line 2 must be a word and a label, not 'b'\.$"),
        ("a O\n\nb X\n", ["O"], r"line 3 must be a word and one of the labels O, not 'b X'\.$"),
        ("\n\n", [], "The split 'train' of .* is empty"),
    ],
)
def test_bad_files_are_one_sentence(text, classes, message, tmp_path):
    """Catches a word without a label that moves all labels behind it."""
    with pytest.raises(ValueError, match=message):
        load_labelled_words(corpus_of(tmp_path, train__conll=text), "train", classes)


# ---- their ids

PAIRS, SINGLE = ModelConfig(token_types=True), ModelConfig()
TOKENIZER = PiecesTokenizer(["a", "b", "c"], "@@")  # ids 4, 5, 6
TEXTS = ["a b", "a\tc b", "", "\tb", "a\t", "a\tb\tc"]


def lists(ragged):
    return [ragged[index].tolist() for index in range(len(ragged))]


def test_pairs_are_written_as_bert_does():
    """Catches a text in another's pair, a second [CLS], and an empty side that shifts the rest."""
    expected = [[1, 4, 5, 2], [1, 4, 2, 6, 5, 2], [1, 2], [1, 2, 5, 2], [1, 4, 2, 2]]
    expected += [[1, 4, 2, *TOKENIZER.encode(["b\tc"])[0]]]  # only the first tab divides
    assert lists(encode_texts(TOKENIZER, TEXTS, PAIRS)) == expected
    assert len(encode_texts(TOKENIZER, [], PAIRS)) == 0
    assert sides(TEXTS[:2], PAIRS) == ["a b", "a", "c b"]
    assert lists(encode_texts(TOKENIZER, TEXTS, SINGLE)) == TOKENIZER.encode(TEXTS)
    assert sides(TEXTS, SINGLE) is TEXTS


@pytest.mark.parametrize("text", ["who is it?", ""])
def test_a_tokenizer_that_has_a_beginning_gets_no_second_one(text):
    """Catches [CLS] twice, or in front of the second text of a pair."""
    tokenizer = read_tokenizer(GOLDEN / "bert", "bert")
    (first, second) = tokenizer.encode([text, "a cat"])
    single, pair = lists(encode_texts(tokenizer, [text, f"{text}\ta cat"], PAIRS))
    assert single == first and pair == [*first, *second[1:]]
    special = tokenizer.special
    assert (pair.count(special.bos), pair.count(special.eos)) == (1, 2)


@pytest.mark.parametrize("model", [SINGLE, PAIRS])
def test_every_word_has_its_class_where_it_begins(model):
    """Catches labels at other pieces, in another text, or shifted by [CLS]."""
    tokenizer = CharacterTokenizer.train(["abcd"])
    source, firsts = encode_words(tokenizer, ["ab c", "", "d abc a"], model)
    targets = label_first_pieces(source, firsts, np.array([3, 0, 1, 2, 0]))
    seen = [
        [(tokenizer.decode([i]), t) for i, t in zip(source[n], targets[n], strict=True)]
        for n in range(3)
    ]
    start = [("", 0)] * model.token_types
    assert seen[0] == [*start, ("a", 4), ("b", 0), ("c", 1), ("", 0)]
    assert seen[1] == [*start, ("", 0)]
    assert seen[2] == [*start, ("d", 2), ("a", 3), ("b", 0), ("c", 0), ("a", 1), ("", 0)]


def test_a_word_that_leaves_nothing_keeps_its_place():
    """Catches labels that move since BERT's tokenizer drops a control character."""
    tokenizer = read_tokenizer(GOLDEN / "bert", "bert")
    source, firsts = encode_words(tokenizer, ["cat \x07 dog"], PAIRS)
    assert len(firsts[0]) == 3 and source[0][firsts[0][1]] == tokenizer.special.unk
