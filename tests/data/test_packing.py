"""packing.py: every pair once an epoch, in static shapes; batches depend on seed and step only."""

import numpy as np
import pytest

from tests.helpers.control_ids import EOS, PAD
from tests.helpers.packed_pairs import epoch_of
from transformer.data.corpora.cleaning import filter_by_length, length_warnings
from transformer.data.rows.bin_packing import fewest_rows, pack
from transformer.data.rows.packing import PackedBatches, num_rows_of_batch
from transformer.data.rows.ragged import Ragged


def test_pairs_that_do_not_fit_are_dropped_and_counted():
    """Catches a sentence cut short, and one, or a tenth of the text, dropped in silence."""
    source, target = (
        Ragged.from_lists([[5] * n for n in lengths]) for lengths in ([4, 9, 2, 1], [4, 2, 8, 8])
    )
    kept, by_reason = filter_by_length(source, target, 8, 4.0)
    assert kept.tolist() == [0, 2]
    assert {reason: list(indices) for reason, indices in by_reason.items()} == {
        "more than 8 pieces": [1],
        "a length ratio above 4": [3],
    }
    skipped = dict.fromkeys(by_reason, 1) | {"equal sides": 99}
    assert length_warnings(skipped, 8) == []
    assert length_warnings(skipped, 7) == [
        "11% of the training text is left out (more than 8 pieces): raise data.row_length",
        "11% of the training text is left out (a length ratio above 4): raise "
        "data.max_length_ratio",
    ]
    kept, by_reason = filter_by_length(source, target, 9, 0)
    assert kept.tolist() == [0, 1, 2, 3] and not by_reason


def test_a_batch_is_a_multiple_of_eight_rows():
    """Catches rows that cannot be dealt out over the devices, and a batch without a row."""
    rows = [num_rows_of_batch(tokens, 10) for tokens in (10, 70, 89, 159, 160, 249)]
    assert rows == [1, 7, 8, 8, 16, 24]
    with pytest.raises(ValueError, match=r"batch_tokens \(9\) .* data\.row_length \(10\)"):
        num_rows_of_batch(9, 10)


def sentences(*lengths):
    """The first piece of each is its number + 10."""
    return Ragged.from_lists([[i + 10, *[5] * (n - 2), EOS] for i, n in enumerate(lengths)])


@pytest.mark.parametrize("num_pairs", [1, 7, 1001])
def test_every_pair_once_an_epoch(num_pairs):
    """Catches pairs lost to a last batch that is not full, or shown twice, and a plan that depends
    on the number of devices."""
    lengths = np.random.default_rng(0).integers(2, 20, (2, num_pairs))
    source, target = (sentences(*side) for side in lengths)
    expected = sorted((source[i].tolist(), target[i].tolist()) for i in range(num_pairs))
    for rows in (8, 1, 3, 64):
        batches = PackedBatches(source, target, row_length=32, rows_per_batch=rows, seed=0)
        for epoch in (0, 1, 7) if rows == 8 else (2,):
            assert sorted(epoch_of(batches, epoch)) == expected
        batch = batches[0]
        assert {a.shape for a in batch[:3]} == {(rows, batches.shape[0])}
        assert {a.shape for a in batch[3:]} == {(rows, 32)} and batches.shape[1] == 32
        assert np.array_equal(batch.weights, batch.targets != PAD)


def test_a_sentence_as_long_as_the_row_and_a_longer_one():
    """Catches a longest sentence that fits no row, and an endless search for one."""
    source, target, rows = sentences(*[32] * 3), sentences(*[2] * 3), dict(rows_per_batch=2, seed=0)
    assert len(epoch_of(PackedBatches(source, target, row_length=32, **rows), 0)) == 3
    with pytest.raises(ValueError, match="A target of 32 tokens fits no row of 31"):
        PackedBatches(target, source, row_length=31, **rows)
    with pytest.raises(AssertionError, match="longer than a row"):
        fewest_rows(np.array([[2], [32]]), (31, 31), 1, np.random.default_rng(0))


def test_a_few_long_sources_are_counted_and_left_out():
    """Catches rows that one long source in a thousand makes longer, and its loss in silence."""
    source = sentences(*(30 if i in (5, 1234) else 6 for i in range(3000)))
    target, rows = sentences(*[8] * 3000), dict(row_length=32, rows_per_batch=8, seed=0)
    batches = PackedBatches(source, target, **rows, too_long=0.001)
    assert batches.shape == (24, 32) and batches.num_too_long == 2
    shown = sorted(source[0] - 10 for source, _ in epoch_of(batches, 0))
    assert shown == sorted(set(range(3000)) - {5, 1234})
    batches = PackedBatches(source, target, **rows)
    assert batches.shape == (30, 32) and batches.num_too_long == 0


def test_pack_as_in_its_example():
    """Catches rounds that fill one side of a row and leave the other empty: `_deal`'s example."""
    lengths = np.array([[7, 5, 4, 2, 1], [5, 6, 3, 5, 1]])
    rows = pack(lengths, (10, 10), 2, np.random.default_rng(0))
    assert rows.tolist() == [0, 1, 1, 0, 1]
    rows = pack(lengths[:, [0, 0, 0]], (10, 10), 2, np.random.default_rng(0))
    assert sorted(rows.tolist()) == [-1, 0, 1]


@pytest.mark.parametrize(
    "shape, fill", [((64, 64), 0.95), ((128, 128), 0.97), ((256, 256), 0.97), ((7, 50), 0.95)]
)
def test_rows_of_realistic_text_and_of_very_different_sides_are_full(shape, fill):
    """Catches a packing that wastes the device: 95% is promised for 4 sentences in a row; and a
    side that counts in tokens where it should in parts of a row. The lengths are log-normal, as
    those of text, and those of translations are about the same."""
    rng = np.random.default_rng(0)
    median = rng.normal(np.log(14), 0.55, 15_000)
    lengths = np.exp(median + rng.normal(0, 0.15, (2, 15_000))).round().astype(int)
    lengths = np.clip(lengths, 2, shape[0])
    if shape[0] != shape[1]:
        lengths = np.stack([rng.integers(1, n // 3, 3000) for n in shape])
    num_rows, row_of = fewest_rows(lengths, shape, 1, rng)
    assert row_of.min() >= 0 and row_of.max() < num_rows
    loads = np.array([np.bincount(row_of, side, num_rows) for side in lengths])
    assert (loads <= np.array(shape)[:, None]).all()
    assert (loads.sum(1) / shape).max() >= fill * num_rows
