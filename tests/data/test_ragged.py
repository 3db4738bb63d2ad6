"""ragged.py: sentences in one array come out as they went in."""

import numpy as np

from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer


def test_ragged_gives_the_sentences_back():
    """Catches an offset by one, and a selection that copies the wrong sentences."""
    sentences = ["c a", "", "b b b", "a"]
    tokenizer = PiecesTokenizer.train(sentences, "")
    ids = Ragged.encode(tokenizer, sentences)
    assert [ids[i].tolist() for i in range(len(ids))] == tokenizer.encode(sentences)
    taken = ids.take(np.array([2, 0])).take(np.array([1, 0]))
    assert [taken[i].tolist() for i in range(2)] == tokenizer.encode(["c a", "b b b"])
    assert taken.lengths.tolist() == [3, 4] and ids.flat.dtype == np.int32
    assert len(Ragged.encode(tokenizer, [])) == 0


def test_chunks_are_joined(monkeypatch):
    """Catches a sentence lost where two chunks meet."""
    monkeypatch.setattr("transformer.data.rows.ragged.CHUNK", 3)
    sentences = [f"{i} x" for i in range(10)]
    tokenizer = PiecesTokenizer.train(sentences, "")
    ids = Ragged.encode(tokenizer, sentences)
    assert [ids[i].tolist() for i in range(10)] == tokenizer.encode(sentences)
