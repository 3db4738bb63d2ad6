"""epoch_pairs.py: how often an epoch shows the pairs of each corpus."""

import numpy as np
import pytest

from transformer.data.epoch_plan import CorpusPart, EpochPairs, with_temperature


def counts_of(pairs, num_epochs, num_pairs):
    """How often each pair is shown in the first epochs."""
    places = np.arange(len(pairs))
    shown = [pairs.at(epoch, places) for epoch in range(num_epochs)]
    return sum(np.bincount(epoch, minlength=num_pairs) for epoch in shown)


def test_weights_count_exactly():
    """Catches an epoch whose length varies, and a weight that favours some pairs of a corpus."""
    parts = [CorpusPart(40, 2.25), CorpusPart(10, 0.3), CorpusPart(0, 1.0), CorpusPart(7)]
    pairs = EpochPairs(parts, seed=0)
    assert len(pairs) == 90 + 3 + 7 and pairs.num_varying == 10 + 3
    for num_epochs in (1, 3, 7, 20):
        counts = np.split(counts_of(pairs, num_epochs, 57), [40, 50])
        assert [c.sum() for c in counts] == [90 * num_epochs, 3 * num_epochs, 7 * num_epochs]
        assert all(c.max() - c.min() <= 1 for c in counts)


def test_other_epochs_and_seeds_show_other_pairs():
    """Catches a part of a corpus that is the same in every epoch."""
    pairs, other = (EpochPairs([CorpusPart(1000, 0.5)], seed) for seed in (0, 1))
    first, second = (set(pairs.at(epoch, np.arange(500)).tolist()) for epoch in (0, 1))
    assert not first & second
    common = first & set(other.at(0, np.arange(500)).tolist())
    assert 180 < len(common) < 320  # 250 expected


def test_the_smallest_weight_shows_a_pair():
    """Catches a corpus that no epoch shows, and an epoch without any pair."""
    pairs = EpochPairs([CorpusPart(2, 1e-6), CorpusPart(5, 1e-6)], seed=0)
    assert len(pairs) == 2 and counts_of(pairs, 10, 7).tolist() == [5, 5, 2, 2, 2, 2, 2]


def test_a_shuffled_epoch_holds_the_same_pairs_in_another_order():
    """Catches parts of an epoch that overlap or leave a gap, and an order that every epoch has."""
    pairs = EpochPairs([CorpusPart(50, 1.5), CorpusPart(30)], seed=0)
    orders = []
    for epoch in range(3):
        parts = [pairs.shuffled(epoch, start, stop) for start, stop in ((0, 9), (9, 80), (80, 105))]
        orders.append(np.concatenate(parts))
        assert sorted(orders[-1]) == sorted(pairs.at(epoch, np.arange(105)))
    assert not np.array_equal(orders[0], orders[1])


def test_the_mean_length_is_that_of_the_epoch():
    """Catches a mean that forgets the weights: rows would be too few."""
    lengths = np.array([1, 2, 3, 10, 10], np.uint16)
    assert EpochPairs([CorpusPart(3), CorpusPart(2, 3)], seed=0).mean(lengths) == 66 / 9


def test_temperature():
    """Catches another exponent, a wrong side of it, and an epoch that grows or shrinks."""
    parts = [CorpusPart(900), CorpusPart(100)]
    assert with_temperature(parts, 1) == parts
    weights = [part.weight for part in with_temperature(parts, 2)]
    assert weights == pytest.approx([750 / 900, 2.5])
    parts = [CorpusPart(900, 2), CorpusPart(100), CorpusPart(0, 3)]
    changed = with_temperature(parts, 5)
    shares = [part.num_pairs * part.weight for part in changed]
    assert sum(shares) == pytest.approx(1900)
    assert shares[0] / shares[1] == pytest.approx(2 * 9 ** (1 / 5))
    even = [part.num_pairs * part.weight for part in with_temperature(parts[1:], 1e9)]
    assert even == pytest.approx([100, 0])
