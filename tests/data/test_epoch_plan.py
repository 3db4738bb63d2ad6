"""epoch_plan.py: epochs in blocks, each planned alone; every pair once in each epoch."""

import threading

import numpy as np
import pytest

from transformer.data import epoch_plan
from transformer.data.epoch_plan import CorpusPart, EpochPlan


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(epoch_plan, "BLOCK_PAIRS", 600)
    monkeypatch.setattr(epoch_plan, "SAMPLE_PAIRS", 300)


def make_plan(num_pairs, parts=None, seed=0):
    lengths = np.random.default_rng(0).integers(2, 12, (2, num_pairs)).astype(np.uint16)
    parts = parts or [CorpusPart(num_pairs)]
    return EpochPlan((lengths[0], lengths[1]), (64, 64), rows_per_batch=4, seed=seed, parts=parts)


def pairs_of_epoch(plan, epoch):
    steps = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
    return np.concatenate([plan.rows(step)[0] for step in steps])


@pytest.mark.parametrize("num_pairs", [1, 299, 301, 600, 601, 1201, 5000])
def test_every_pair_once_an_epoch_whatever_the_blocks(small_blocks, num_pairs):
    """Catches pairs lost or shown twice between two blocks, and blocks that are not equal."""
    plan = make_plan(num_pairs)
    assert plan.num_blocks == -(-num_pairs // 600)
    for epoch in (0, 1):
        assert sorted(pairs_of_epoch(plan, epoch)) == list(range(num_pairs))
    for step in range(plan.batches_per_epoch):
        pairs, per_row = plan.rows(step)
        assert per_row.shape == (4,) and per_row.sum() == len(pairs)
        row = np.repeat(np.arange(4), per_row)
        for lengths in plan.lengths:
            assert np.bincount(row, lengths[pairs], 4).max() <= 64


def test_a_batch_is_a_function_of_seed_and_step(small_blocks):
    """Catches state: the order in which steps are asked for, or a block that leans on another."""
    plan = make_plan(2000)
    steps = range(2 * plan.batches_per_epoch)
    in_order = [plan.rows(step) for step in steps]
    fresh = make_plan(2000)
    for step in np.random.default_rng(0).permutation(steps):
        for found, expected in zip(fresh.rows(int(step)), in_order[step], strict=True):
            assert np.array_equal(found, expected)
    other = make_plan(2000, seed=1)
    assert not np.array_equal(other.rows(0)[0], in_order[0][0])


def test_only_the_block_of_a_step_is_planned(small_blocks, monkeypatch):
    """Catches a restart that plans the epoch from its beginning."""
    planned = []
    make = EpochPlan._make_plan
    monkeypatch.setattr(
        EpochPlan, "_make_plan", lambda self, block: planned.append(block) or make(self, block)
    )
    plan = make_plan(5000)
    step = plan.batches_per_epoch + 3 * plan.batches_per_block + 1
    plan.rows(step)
    assert planned == [plan.num_blocks + 3]
    before = set(threading.enumerate())
    plan.plan_ahead(step)
    plan.plan_ahead(step + plan.batches_per_block - 2)
    plan.plan_ahead(step + plan.batches_per_block - 2)
    for thread in set(threading.enumerate()) - before:
        thread.join()
    assert planned == [plan.num_blocks + 3, plan.num_blocks + 4]
    plan.rows(step + plan.batches_per_block)
    assert planned == [plan.num_blocks + 3, plan.num_blocks + 4]


def test_blocks_are_random_parts_of_the_corpus(small_blocks):
    """Catches blocks of neighbours: an epoch would show one corpus after another."""
    plan = make_plan(3000, [CorpusPart(1500), CorpusPart(1500)])
    block = np.concatenate([plan.rows(step)[0] for step in range(plan.batches_per_block)])
    assert 230 < (block < 1500).sum() < 370  # 300 expected, 11 the standard deviation
    first = np.concatenate([plan.rows(step)[0] for step in range(5)])
    assert 0.3 < (first < 1500).mean() < 0.7


def test_weights_in_blocks(small_blocks):
    """Catches weights that only an epoch of one block honours."""
    plan = make_plan(2000, [CorpusPart(1000, 2), CorpusPart(1000, 0.5)])
    counts = sum(np.bincount(pairs_of_epoch(plan, epoch), minlength=2000) for epoch in (0, 1))
    assert (counts == np.repeat([4, 1], 1000)).all()


def test_rows_of_many_blocks_are_full(small_blocks, monkeypatch):
    """Catches blocks with far more rows than they need."""
    monkeypatch.setattr(epoch_plan, "BLOCK_PAIRS", 20_000)
    monkeypatch.setattr(epoch_plan, "SAMPLE_PAIRS", 5_000)
    plan = make_plan(50_000)
    positions = plan.batches_per_epoch * plan.rows_per_batch * 64
    assert plan.lengths[0].sum() / positions >= 0.94
    assert plan.lengths[1].sum() / positions >= 0.94


def test_blocks_leave_room_for_longer_pairs_than_the_mean(small_blocks):
    """Catches a margin of another size than six standard deviations of a block."""
    plan = make_plan(6000)
    lengths = np.stack(plan.lengths).astype(float)
    expected = 600 * lengths.mean(1) + 6 * lengths.std(1) * 600**0.5
    assert plan._longest_block() == pytest.approx(expected, rel=0.01)


def test_what_fits_no_row_is_said(small_blocks, monkeypatch):
    """Catches pairs that are lost in silence."""
    plan = make_plan(1300)
    monkeypatch.setattr(plan, "batches_per_block", plan.batches_per_block // 2)
    with pytest.warns(UserWarning, match=r"of the 433 pairs in block 1 of 3 of epoch 1 fit none"):
        plan.rows(0)


def test_a_corpus_of_one_block_always_fits(monkeypatch):
    """Catches an epoch whose packing fails: the first one's, known to fit, must stand in."""
    plan = make_plan(300)
    monkeypatch.setattr(
        epoch_plan, "pack", lambda lengths, *_: np.where(np.arange(lengths.shape[1]) == 3, -1, 0)
    )
    orders = [pairs_of_epoch(plan, epoch) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(300)) for order in orders)
    assert not np.array_equal(*orders)
