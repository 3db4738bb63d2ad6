"""Rows of sentence pairs, written out in full."""

import numpy as np

from transformer.data.rows.batch import Batch, fill_rows, shift_right
from transformer.data.rows.ragged import Ragged
from transformer.special_tokens import BOS, EOS, PAD


def test_rows_are_filled_one_sentence_after_another():
    """Catches positions, segments or decoder inputs that run on from one sentence to the next."""
    sentences = Ragged.from_lists([[7, 8, EOS], [9, EOS], [6, 6, 6, EOS]])
    ids, segments, positions = fill_rows(sentences, np.array([2, 1, 0]), np.array([2, 0, 1]), 8)
    assert ids.tolist() == [
        [6, 6, 6, EOS, 9, EOS, PAD, PAD],
        [PAD] * 8,
        [7, 8, EOS, PAD, PAD, PAD, PAD, PAD],
    ]
    assert segments.tolist() == [
        [1, 1, 1, 1, 2, 2, 0, 0],
        [0] * 8,
        [1, 1, 1, 0, 0, 0, 0, 0],
    ]
    assert positions.tolist() == [
        [0, 1, 2, 3, 0, 1, 0, 0],
        [0] * 8,
        [0, 1, 2, 0, 0, 0, 0, 0],
    ]
    assert shift_right(ids, positions).tolist() == [
        [BOS, 6, 6, 6, BOS, 9, PAD, PAD],
        [PAD] * 8,
        [BOS, 7, 8, PAD, PAD, PAD, PAD, PAD],
    ]


def test_batch_as_in_its_example():
    """Catches sides that are exchanged, and fields in another order: the example of `Batch`."""
    source = Ragged.from_lists([[8, EOS], [5, 6, EOS]])
    target = Ragged.from_lists([[9, 9, EOS], [7, EOS]])
    batch = Batch.from_pairs(
        source,
        target,
        np.array([1, 0]),
        pairs_per_row=np.array([2]),
        source_length=6,
        target_length=6,
    )
    assert {name: row.tolist() for name, (row,) in batch._asdict().items()} == {
        "inputs": [5, 6, EOS, 8, EOS, PAD],
        "input_segments": [1, 1, 1, 2, 2, 0],
        "input_positions": [0, 1, 2, 0, 1, 0],
        "decoder_inputs": [BOS, 7, BOS, 9, 9, PAD],
        "targets": [7, EOS, 9, 9, EOS, PAD],
        "target_segments": [1, 1, 2, 2, 2, 0],
        "target_positions": [0, 1, 0, 1, 2, 0],
    }
    assert batch.weights.tolist() == [[1, 1, 1, 1, 1, 0]]


def test_arrays_of_one_pair_per_row_are_the_same_batch():
    """Catches padding that the models attend to, in what a researcher feeds by hand."""
    source, target = [[5, 6, EOS], [], [7, EOS]], [[8, EOS], [], [9, 9, EOS]]
    inputs, targets = (
        np.array([ids + [PAD] * (4 - len(ids)) for ids in side], np.int32)
        for side in (source, target)
    )
    packed = Batch.from_pairs(
        Ragged.from_lists(source),
        Ragged.from_lists(target),
        np.arange(3),
        pairs_per_row=np.ones(3, int),
        source_length=4,
        target_length=4,
    )
    for a, b in zip(Batch.from_arrays(inputs, targets), packed, strict=True):
        assert np.array_equal(a, b) and a.dtype == np.int32


def test_lengths_may_be_given():
    """Catches an empty row that is attended to, and one whose class would not be computed."""
    inputs = np.full((2, 3), 5, np.int32)
    batch = Batch.from_arrays(inputs, input_lengths=np.array([3, 0]))
    assert batch.input_segments.tolist() == [[1, 1, 1], [0, 0, 0]]
    assert batch.weights.tolist() == [[1], [1]]


def test_rows_for_shapes_only():
    """Catches a side that is left out, and types that would compile another program."""
    batch = Batch.zeros(3, 5)
    assert {array.shape for array in batch} == {(3, 5)}
    assert {array.dtype for array in batch} == {np.dtype(np.int32)} and not batch.weights.any()
