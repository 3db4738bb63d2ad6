"""ragged.py: sentences in one array come out as they went in."""

import numpy as np
import pytest

from transformer.data.batch import Batch
from transformer.data.ragged import Ragged, Starts
from transformer.data.simple_tokenizers import PiecesTokenizer


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
    monkeypatch.setattr("transformer.data.ragged.CHUNK", 3)
    sentences = [f"{i} x" for i in range(10)]
    tokenizer = PiecesTokenizer.train(sentences, "")
    ids = Ragged.encode(tokenizer, sentences)
    assert [ids[i].tolist() for i in range(10)] == tokenizer.encode(sentences)


@pytest.mark.parametrize("number", [0, 1, 31, 32, 33, 100])
def test_starts_follow_from_lengths(number):
    """Catches a start beside the blocks of which a start is kept, and sums that overflow uint16."""
    lengths = np.random.default_rng(0).integers(0, 60_000, number).astype(np.uint16)
    expected = np.cumsum(lengths, dtype=np.int64) - lengths
    order = np.random.default_rng(1).permutation(number)
    assert np.array_equal(Starts(lengths)[order], expected[order])


def test_small_integers_make_the_same_batch():
    """Catches positions that overflow the type of the lengths, and a batch of another type."""
    rows = [[5] * 150, [65_535], [6, 7], [8] * 200]
    wide = Ragged.from_lists(rows)
    lengths = wide.lengths.astype(np.uint8)
    small = Ragged(wide.flat.astype(np.uint16), Starts(lengths), lengths)
    batches = [
        Batch.from_pairs(
            side, side, np.array([3, 0, 2, 1]), pairs_per_row=np.array([2, 2]),
            source_length=400, target_length=400,
        )
        for side in (wide, small)
    ]  # fmt: skip
    for ours, theirs in zip(*batches, strict=True):
        assert np.array_equal(ours, theirs) and ours.dtype == theirs.dtype
