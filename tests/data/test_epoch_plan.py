"""epoch_plan.py: every pair as often as its weight says, in blocks planned apart."""

import threading

import numpy as np
import pytest

from tests.helpers.scripts import HANGS
from transformer.data.rows import epoch_plan
from transformer.data.rows.epoch_plan import (
    CorpusPart,
    EpochPairs,
    EpochPlan,
    permute,
    with_temperature,
)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(epoch_plan, "BLOCK_PAIRS", 600)
    monkeypatch.setattr(epoch_plan, "SAMPLE_PAIRS", 300)


def make_plan(num_pairs, parts=None):
    lengths = np.random.default_rng(0).integers(2, 12, (2, num_pairs)).astype(np.uint16)
    parts = parts or [CorpusPart(num_pairs)]
    return EpochPlan(lengths, (64, 64), rows_per_batch=4, seed=0, parts=parts)


def pairs_of_epoch(plan, epoch):
    steps = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
    return np.concatenate([plan.rows(step)[0] for step in steps])


@pytest.mark.parametrize("num_pairs", [1, 301, 600, 601, 5000])
def test_every_pair_once_an_epoch_whatever_the_blocks(small_blocks, num_pairs):
    """Catches pairs lost or shown twice between two blocks, and blocks that are not equal."""
    plan = make_plan(num_pairs)
    assert plan.num_blocks == -(-num_pairs // 600)
    for epoch in (0, 1):
        assert sorted(pairs_of_epoch(plan, epoch)) == list(range(num_pairs))
    for pairs, per_row in map(plan.rows, range(plan.batches_per_epoch)):
        assert per_row.shape == (4,) and per_row.sum() == len(pairs)
        row = np.repeat(np.arange(4), per_row)
        for lengths in plan.lengths:
            assert np.bincount(row, lengths[pairs], 4).max() <= 64


def test_only_the_block_of_a_step_is_planned_and_the_next_beside_its_batches(
    small_blocks, monkeypatch
):
    """Catches a restart that plans the epoch from its beginning, plans that are all kept, and
    training that stands still, twice an epoch, until the pairs of the next block are packed."""
    planned, may_go_on, make = [], threading.Event(), EpochPlan._make_plan

    def note_and_plan(plan, block):
        planned.append(block)
        assert len(planned) == 1 or may_go_on.wait(HANGS)
        return make(plan, block)

    monkeypatch.setattr(EpochPlan, "_make_plan", note_and_plan)
    plan = make_plan(5000)
    step = plan.batches_per_epoch + 3 * plan.batches_per_block + 1
    plan.rows(step)
    assert planned == [plan.num_blocks + 3]
    for _ in range(2):
        plan.rows(step + plan.batches_per_block - 2)
    may_go_on.set()
    for blocks in (1, 2, 0):
        plan.rows(step + blocks * plan.batches_per_block)
    assert planned == [plan.num_blocks + number for number in (3, 4, 5, 3)]


def test_blocks_are_random_parts_of_the_corpus(small_blocks):
    """Catches blocks of neighbours, so that an epoch would show one corpus after another, and
    blocks that are the same in every epoch."""
    plan = make_plan(3000)
    block, again = (pairs_of_epoch(plan, epoch)[:600] for epoch in (0, 1))
    assert 230 < (block < 1500).sum() < 370  # 300 expected, 11 the standard deviation
    assert len({*block} & {*again}) < 200  # 120 expected
    first = np.concatenate([plan.rows(step)[0] for step in range(5)])
    assert 0.3 < (first < 1500).mean() < 0.7


def test_blocks_honour_weights_and_are_full(small_blocks, monkeypatch):
    """Catches weights that only an epoch of one block honours, and blocks of far too many rows."""
    plan = make_plan(2000, [CorpusPart(1000, 2), CorpusPart(1000, 0.5)])
    counts = sum(np.bincount(pairs_of_epoch(plan, epoch), minlength=2000) for epoch in (0, 1))
    assert (counts == np.repeat([4, 1], 1000)).all()
    monkeypatch.setattr(epoch_plan, "BLOCK_PAIRS", 20_000)
    monkeypatch.setattr(epoch_plan, "SAMPLE_PAIRS", 5_000)
    plan = make_plan(50_000)
    positions = plan.batches_per_epoch * plan.rows_per_batch * 64
    assert (plan.lengths.sum(1) / positions).min() >= 0.94


def test_what_fits_no_row_is_said(small_blocks, monkeypatch):
    """Catches pairs that are lost in silence."""
    plan = make_plan(1300)
    monkeypatch.setattr(plan, "batches_per_block", plan.batches_per_block // 2)
    with pytest.warns(UserWarning, match=r"Block 1 of 3 of epoch 1 leaves out .* its 433 pairs"):
        plan.rows(0)


def test_a_corpus_of_one_block_always_fits(monkeypatch):
    """Catches an epoch whose packing fails: the first one's, known to fit, must stand in."""
    plan = make_plan(300)
    one_fails = np.where(np.arange(300) == 3, -1, 0)
    monkeypatch.setattr(epoch_plan, "pack", lambda *_: one_fails)
    orders = [pairs_of_epoch(plan, epoch) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(300)) for order in orders)
    assert not np.array_equal(*orders)


def counts_of(pairs, num_epochs, num_pairs):
    shown = [pairs.at(epoch, np.arange(len(pairs))) for epoch in range(num_epochs)]
    return sum(np.bincount(epoch, minlength=num_pairs) for epoch in shown)


def test_weights_count_exactly():
    """Catches an epoch whose length varies, a weight that favours some pairs of a corpus, a
    corpus that no epoch shows, the same pairs whatever the seed, and a mean without weights."""
    parts = [CorpusPart(40, 2.25), CorpusPart(10, 0.3), CorpusPart(0, 1.0), CorpusPart(7)]
    pairs = EpochPairs(parts, seed=0)
    assert len(pairs) == 90 + 3 + 7 and pairs.num_varying == 10 + 3
    for num_epochs in (1, 3, 7, 20):
        counts = np.split(counts_of(pairs, num_epochs, 57), [40, 50])
        assert [c.sum() for c in counts] == [90 * num_epochs, 3 * num_epochs, 7 * num_epochs]
        assert all(c.max() - c.min() <= 1 for c in counts)
    pairs = EpochPairs([CorpusPart(2, 1e-6), CorpusPart(5, 1e-6)], seed=0)
    assert len(pairs) == 2 and counts_of(pairs, 10, 7).tolist() == [5, 5, 2, 2, 2, 2, 2]
    halves = (EpochPairs([CorpusPart(1000, 0.5)], seed).at(0, np.arange(500)) for seed in (0, 1))
    assert 180 < np.intersect1d(*halves).size < 320  # 250 expected
    lengths = np.array([1, 2, 3, 10, 10], np.uint16)
    assert EpochPairs([CorpusPart(3), CorpusPart(2, 3)], seed=0).mean(lengths) == 66 / 9


def test_temperature():
    """Catches another exponent, a wrong side of it, and an epoch that grows or shrinks."""
    parts = [CorpusPart(900), CorpusPart(100)]
    assert with_temperature(parts, 1) == parts
    assert [part.weight for part in with_temperature(parts, 2)] == pytest.approx([750 / 900, 2.5])
    changed = with_temperature([CorpusPart(900, 2), CorpusPart(100), CorpusPart(0, 3)], 5)
    shares = [part.num_pairs * part.weight for part in changed]
    assert sum(shares) == pytest.approx(1900)
    assert shares[0] / shares[1] == pytest.approx(2 * 9 ** (1 / 5))


def test_keys_give_orders_that_have_nothing_to_do_with_each_other():
    """Catches two indices with one place, for which a pair would be shown twice and another not,
    and a weak shuffle: numbers that are neighbours before and after it, in every order."""
    for size in (*range(1, 40), 1000, 2**16, 2**16 + 1):
        order = permute(np.arange(size), size, (0, 1))
        assert np.array_equal(np.sort(order), np.arange(size))
    size = 30
    orders = np.array([permute(np.arange(size), size, (0, epoch)) for epoch in range(3000)])
    counts = np.array([np.bincount(column, minlength=size) for column in orders.T])
    assert counts.min() > 50 and counts.max() < 160  # 100 expected, 10 the standard deviation
    steps = np.bincount((np.diff(orders) % size).ravel(), minlength=size)[1:]
    assert steps.min() > 2600 and steps.max() < 3400  # 3000 expected
