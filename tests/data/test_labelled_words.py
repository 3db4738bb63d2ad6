"""labelled_words.py: a label for each word, at the piece where the word begins."""

import numpy as np
import pytest

from tests.helpers.imported import GOLDEN
from transformer.config import DataConfig, ModelConfig
from transformer.data.rows.labelled_words import (
    encode_words,
    label_first_pieces,
    load_labelled_words,
)
from transformer.data.tokenizers.characters_and_pieces import CharacterTokenizer
from transformer.interop.huggingface.tokens import read_bert_tokenizer
from transformer.special_tokens import EOS, UNK

CONLL = "EU NNP B-ORG\nrejects VBZ O\n\n\n-x-\tO\n \nPeter NNP B-PER\nBlackburn NNP I-PER"


def corpus(folder, text):
    (folder / "train.conll").write_text(text)
    return DataConfig(corpus=str(folder))


def test_columns_and_empty_lines(tmp_path):
    """Catches the second column for the label, and a last text that no empty line ends."""
    found = load_labelled_words(corpus(tmp_path, CONLL), "train")
    assert found.texts == ["EU rejects", "-x-", "Peter Blackburn"]
    assert found.labels == ["B-ORG O", "O", "B-PER I-PER"]
    assert load_labelled_words(corpus(tmp_path, CONLL), "train[34%:]").texts == found.texts[1:]


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
        load_labelled_words(corpus(tmp_path, text), "train", classes)


def test_a_missing_file_says_what_is_there(tmp_path):
    """Catches a stack trace for a folder of another task."""
    (tmp_path / "train.tsv").write_text("")
    with pytest.raises(ValueError, match=r"must hold dev.conll .*; it holds train.tsv"):
        load_labelled_words(DataConfig(corpus=str(tmp_path)), "dev")


@pytest.mark.parametrize("has_types", [False, True])
def test_every_word_has_its_class_where_it_begins(has_types):
    """Catches labels at other pieces, in another text, or shifted by [CLS]."""
    tokenizer = CharacterTokenizer.train(["abcd"])
    texts = ["ab c", "", "d abc a"]
    source, firsts = encode_words(tokenizer, texts, ModelConfig(token_types=has_types))
    targets = label_first_pieces(source, firsts, np.array([3, 0, 1, 2, 0]))
    seen = [
        [(tokenizer.decode([i]), t) for i, t in zip(source[n], targets[n], strict=True)]
        for n in range(3)
    ]
    start = [("", 0)] * has_types
    assert seen[0] == [*start, ("a", 4), ("b", 0), ("c", 1), ("", 0)]
    assert seen[1] == [*start, ("", 0)]
    assert seen[2] == [*start, ("d", 2), ("a", 3), ("b", 0), ("c", 0), ("a", 1), ("", 0)]


def test_a_word_that_leaves_nothing_keeps_its_place():
    """Catches labels that move since BERT's tokenizer drops a control character."""
    tokenizer, _ = read_bert_tokenizer(GOLDEN / "bert")
    source, firsts = encode_words(tokenizer, ["cat \x07 dog"], ModelConfig(token_types=True))
    assert len(firsts[0]) == 3 and source[0][firsts[0][1]] == UNK and source[0][-1] == EOS
