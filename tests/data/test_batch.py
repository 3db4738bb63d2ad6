"""batch.py, ragged.py: sentences in one array, and rows of pairs, written out in full."""

import numpy as np

from tests.helpers.control_ids import EOS, PAD
from transformer.data.rows.batch import Batch
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.lists import PiecesTokenizer


def test_batch_as_in_its_example():
    """Catches sides that are exchanged, fields in another order, and positions or segments that
    run on from one sentence to the next: the example of `Batch`, and two more rows."""
    source = Ragged.from_lists([[8, EOS], [5, 6, EOS], [7, 8, 9, EOS]])
    target = Ragged.from_lists([[9, 9, EOS], [7, EOS], [4, EOS]])
    batch = Batch.from_pairs((source, target), np.array([1, 0, 2]), np.array([2, 0, 1]), (6, 6))
    empty = [PAD] * 6
    assert {name: array.tolist() for name, array in batch._asdict().items()} == {
        "inputs": [[5, 6, EOS, 8, EOS, PAD], empty, [7, 8, 9, EOS, PAD, PAD]],
        "input_segments": [[1, 1, 1, 2, 2, 0], empty, [1, 1, 1, 1, 0, 0]],
        "input_positions": [[0, 1, 2, 0, 1, 0], empty, [0, 1, 2, 3, 0, 0]],
        "targets": [[7, EOS, 9, 9, EOS, PAD], empty, [4, EOS, PAD, PAD, PAD, PAD]],
        "target_segments": [[1, 1, 2, 2, 2, 0], empty, [1, 1, 0, 0, 0, 0]],
        "target_positions": [[0, 1, 0, 1, 2, 0], empty, [0, 1, 0, 0, 0, 0]],
    }
    assert batch.weights.tolist() == [[1, 1, 1, 1, 1, 0], empty, [1, 1, 0, 0, 0, 0]]


def test_arrays_of_one_pair_per_row_are_the_same_batch():
    """Catches padding that the models attend to, in what a researcher feeds by hand, types that
    would compile another program, and an empty row whose class would not be computed."""
    source, target = [[5, 6, EOS], [], [7, EOS]], [[8, EOS], [], [9, 9, EOS]]
    arrays = [[ids + [PAD] * (4 - len(ids)) for ids in side] for side in (source, target)]
    sides = [*map(Ragged.from_lists, (source, target))]
    packed = Batch.from_pairs(sides, np.arange(3), np.ones(3, int), (4, 4))
    for a, b in zip(Batch.from_arrays(*arrays), packed, strict=True):
        assert np.array_equal(a, b) and a.dtype == np.int32
    for array in Batch.zeros(3, 5):
        assert array.shape == (3, 5) and array.dtype == np.int32 and not array.any()
    batch = Batch.from_arrays(np.full((2, 3), 5, np.int32), input_lengths=np.array([3, 0]))
    assert batch.input_segments.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert batch.weights.tolist() == [[1], [1]]


def test_ragged_gives_the_sentences_back(monkeypatch):
    """Catches an offset by one, a sentence lost where two chunks meet, and a selection that copies
    the wrong sentences."""
    monkeypatch.setattr("transformer.data.rows.ragged.CHUNK", 3)
    sentences = ["c a", "", "b b b", "a", *(f"{i} x" for i in range(6))]
    tokenizer = PiecesTokenizer.train(sentences, "")
    ids = Ragged.encode(tokenizer, sentences)
    assert [ids[i].tolist() for i in range(len(ids))] == tokenizer.encode(sentences)
    taken = ids.take(np.array([2, 0]))
    assert [taken[i].tolist() for i in range(2)] == tokenizer.encode(["b b b", "c a"])
    assert taken.lengths.tolist() == [4, 3] and ids.flat.dtype == taken.flat.dtype == np.int32
    assert len(Ragged.encode(tokenizer, [])) == 0
