"""bin_packing.py: rows are full on both sides and never too full."""

import numpy as np
import pytest

from transformer.data.rows.bin_packing import _deal, fewest_rows, pack


def random_lengths(num_pairs, median, longest, seed=0):
    """Lengths [2, pairs] of log-normal sentences, as those of text, and their translations."""
    rng = np.random.default_rng(seed)
    length = rng.normal(np.log(median), 0.55, num_pairs)
    sides = np.exp(length + rng.normal(0, 0.15, (2, num_pairs)))
    lengths = np.maximum(2, sides.round()).astype(int)
    return lengths[:, lengths.max(0) <= longest]


def loads(lengths, row_of, num_rows):
    return np.array([np.bincount(row_of, side, num_rows) for side in lengths])


def test_pack_as_in_its_example():
    """Catches rounds that fill one side of a row and leave the other empty: `_deal`'s example."""
    lengths = np.array([[7, 5, 4, 2, 1], [5, 6, 3, 5, 1]])
    rows = pack(lengths, (10, 10), 2, np.random.default_rng(0))
    assert rows.tolist() == [0, 1, 1, 0, 1]
    rows = pack(lengths[:, [0, 0, 0]], (10, 10), 2, np.random.default_rng(0))
    assert sorted(rows.tolist()) == [-1, 0, 1]


def test_exchanges_make_room_where_dealing_out_finds_none():
    """Catches an exchange that never happens, or one that overfills a row."""
    lengths = random_lengths(6000, median=14, longest=64)
    num_rows = int(1.04 * lengths.sum(1).max() / 64)
    dealt = _deal(lengths / 64, num_rows, np.random.default_rng(0))
    row_of = pack(lengths, (64, 64), num_rows, np.random.default_rng(0))
    assert (dealt < 0).sum() > 200 and (row_of < 0).sum() < 20
    inside = row_of >= 0
    assert (loads(lengths[:, inside], row_of[inside], num_rows) <= 64).all()


@pytest.mark.parametrize("shape, fill", [((64, 64), 0.95), ((128, 128), 0.97), ((256, 256), 0.97)])
def test_rows_of_realistic_text_are_full(shape, fill):
    """Catches a packing that wastes the device: 95% is promised for 4 sentences in a row."""
    lengths = random_lengths(15_000, median=14, longest=shape[1])
    num_rows, row_of = fewest_rows(lengths, shape, 1, np.random.default_rng(0))
    assert row_of.min() >= 0 and row_of.max() < num_rows
    assert (loads(lengths, row_of, num_rows) <= np.array(shape)[:, None]).all()
    assert lengths.sum() / (num_rows * sum(shape)) >= fill


@pytest.mark.parametrize("shape", [(7, 50), (50, 7)])
def test_sides_of_very_different_lengths(shape):
    """Catches a side that counts in tokens where it should in parts of a row."""
    rng = np.random.default_rng(0)
    lengths = np.stack([rng.integers(1, n // 3, 3000) for n in shape])
    num_rows, row_of = fewest_rows(lengths, shape, 1, rng)
    load = loads(lengths, row_of, num_rows)
    assert (load <= np.array(shape)[:, None]).all()
    assert (load.sum(1) / shape).max() >= 0.95 * num_rows


def test_the_number_of_rows_is_a_multiple_of_the_unit():
    """Catches a last batch without all of its rows."""
    lengths = random_lengths(500, median=14, longest=64)
    num_rows, row_of = fewest_rows(lengths, (64, 64), 24, np.random.default_rng(0))
    assert num_rows % 24 == 0 and row_of.min() >= 0


def test_one_pair_as_long_as_a_row_each():
    """Catches an endless search where nothing can be put together."""
    lengths = np.full((2, 300), 8)
    num_rows, row_of = fewest_rows(lengths, (10, 10), 1, np.random.default_rng(0))
    assert sorted(row_of) == sorted(set(row_of)) and 300 <= num_rows <= 330
