"""text_pairs.py: [CLS] first [SEP] second [SEP], with our BOS and EOS."""

import numpy as np
import pytest

from tests.helpers.imported import GOLDEN
from transformer.config import ModelConfig
from transformer.data.rows.text_pairs import encode_texts, sides
from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer
from transformer.interop.huggingface.tokens import read_bert_tokenizer

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


def test_models_without_token_types_notice_nothing():
    """Catches another beginning for the classifiers that were trained before there were pairs."""
    assert lists(encode_texts(TOKENIZER, TEXTS, SINGLE)) == TOKENIZER.encode(TEXTS)
    assert sides(TEXTS, SINGLE) is TEXTS


@pytest.mark.parametrize("text", ["who is it?", ""])
def test_a_tokenizer_that_has_a_beginning_gets_no_second_one(text):
    """Catches [CLS] twice, or in front of the second text of a pair."""
    tokenizer, _ = read_bert_tokenizer(GOLDEN / "bert")
    (first, second) = tokenizer.encode([text, "a cat"])
    single, pair = lists(encode_texts(tokenizer, [text, f"{text}\ta cat"], PAIRS))
    assert single == first and pair == [*first, *second[1:]]
    np.testing.assert_equal(np.bincount(pair)[1:3], [1, 2])
