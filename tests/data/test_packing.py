"""packing.py: every pair once an epoch, in static shapes; batches depend on seed and step only."""

import pathlib

import numpy as np
import pytest

from configs import embedded_en_de, multi30k_tiny
from transformer.data.corpora.cleaning import filter_by_length, length_warnings
from transformer.data.corpora.training_text import TrainingText
from transformer.data.rows.packing import PackedBatches, num_rows_of_batch
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import train_tokenizers
from transformer.special_tokens import EOS, PAD

ROOT = pathlib.Path(__file__).parents[2]
CONFIGS = {"embedded": embedded_en_de, "multi30k": multi30k_tiny}


def make_pairs(num_pairs, seed=0, longest=20):
    """(source, target) of random lengths; the first piece of each is the pair's number + 10."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, longest, (2, num_pairs))
    return tuple(
        Ragged.from_lists([[i + 10, *[5] * (n - 2), EOS] for i, n in enumerate(side)])
        for side in lengths
    )


def batches_of(num_pairs, *, rows=8, seed=0, row_length=32, parts=None, longest=20):
    source, target = make_pairs(num_pairs, longest=longest)
    return PackedBatches(
        source, target, row_length=row_length, rows_per_batch=rows, seed=seed, parts=parts
    )


def read_pairs(batch):
    """The pairs of a batch, read back by segment: [(source ids, target ids)]."""
    pairs = []
    for row in range(len(batch.inputs)):
        for segment in range(1, batch.input_segments[row].max() + 1):
            source = batch.inputs[row][batch.input_segments[row] == segment]
            target = batch.targets[row][batch.target_segments[row] == segment]
            pairs.append((source.tolist(), target.tolist()))
        assert batch.target_segments[row].max() == batch.input_segments[row].max()
    return pairs


def epoch_of(batches, epoch):
    n = batches.batches_per_epoch
    return [pair for step in range(epoch * n, epoch * n + n) for pair in read_pairs(batches[step])]


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_pairs_that_do_not_fit_are_dropped_and_counted():
    """Catches a sentence cut short, and one, or a tenth of the text, dropped in silence."""
    source, target = (
        Ragged.from_lists([[5] * n for n in lengths]) for lengths in ([4, 9, 2, 1], [4, 2, 8, 8])
    )
    kept, skipped, by_reason = filter_by_length(source, target, 8, 4.0)
    assert kept.tolist() == [0, 2]
    assert skipped == {"more than 8 pieces": 1, "a length ratio above 4": 1}
    assert {reason: list(indices) for reason, indices in by_reason.items()} == {
        "more than 8 pieces": [1],
        "a length ratio above 4": [3],
    }
    assert length_warnings({**skipped, "equal sides": 99}, 8) == []
    assert length_warnings({**skipped, "equal sides": 99}, 7) == [
        "11% of the training text is left out (more than 8 pieces): raise data.row_length",
        "11% of the training text is left out (a length ratio above 4): raise "
        "data.max_length_ratio",
    ]
    kept, skipped, _ = filter_by_length(source, target, 9, 0)
    assert kept.tolist() == [0, 1, 2, 3] and not skipped


def test_a_batch_is_a_multiple_of_eight_rows():
    """Catches rows that cannot be dealt out over the devices, and a batch without a row."""
    rows = [num_rows_of_batch(tokens, 10) for tokens in (10, 70, 89, 159, 160, 249)]
    assert rows == [1, 7, 8, 8, 16, 24]
    with pytest.raises(ValueError, match=r"batch_tokens \(9\) .* data\.row_length \(10\)"):
        num_rows_of_batch(9, 10)


@pytest.mark.parametrize("num_pairs", [1, 2, 7, 200, 1001])
def test_every_pair_once_an_epoch(num_pairs):
    """Catches pairs lost to a last batch that is not full, or shown twice."""
    batches = batches_of(num_pairs)
    source, target = batches.source, batches.target
    expected = sorted((source[i].tolist(), target[i].tolist()) for i in range(num_pairs))
    for epoch in (0, 1, 7):
        assert sorted(epoch_of(batches, epoch)) == expected


def test_epochs_and_seeds_differ_in_order():
    """Catches the same order every epoch."""
    batches, other = batches_of(200), batches_of(200, seed=1)
    orders = [epoch_of(batches, 0), epoch_of(batches, 1), epoch_of(other, 0)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_a_batch_is_a_function_of_seed_and_step():
    """Catches state: a resumed run must see the batches of the uninterrupted one."""
    batches = batches_of(200)
    steps = list(range(3 * batches.batches_per_epoch + 1))
    in_order = [batches[step] for step in steps]
    fresh = batches_of(200)
    for step in reversed(steps):
        assert equal(fresh[step], in_order[step])
    assert equal(batches_of(200)[steps[-1]], in_order[-1])


def test_batches_do_not_share_memory():
    """Catches an array that the device still reads while the next batch is written into it."""
    batches = batches_of(50)
    assert not any(np.shares_memory(a, b) for a, b in zip(batches[0], batches[0], strict=True))


def test_a_host_makes_its_rows_alone():
    """Catches rows of one host that are not those of the whole batch, or all rows on every host."""
    batches = batches_of(200)
    whole, first, last = batches[3], batches.part(3, 0, 5), batches.part(3, 5, 8)
    for everything, upper, lower in zip(whole, first, last, strict=True):
        assert np.array_equal(upper[:5], everything[:5]) and not upper[5:].any()
        assert np.array_equal(lower[5:], everything[5:]) and not lower[:5].any()


def test_one_static_shape():
    """Catches a last batch of another shape, which would cost a compile."""
    for num_pairs in (1, 5, 300):
        batches = batches_of(num_pairs)
        for step in range(2 * batches.batches_per_epoch):
            batch = batches[step]
            assert {a.shape for a in batch[:3]} == {(8, batches.shape[0])}
            assert {a.shape for a in batch[3:]} == {(8, 32)} and batches.shape[1] == 32
            assert {a.dtype for a in batch} == {np.dtype(np.int32)}
            assert np.array_equal(batch.weights, batch.targets != PAD)


def test_a_sentence_as_long_as_the_row():
    """Catches a longest sentence that fits no row, and an endless search for one."""
    source, target = Ragged.from_lists([[5] * 31 + [EOS]] * 3), Ragged.from_lists([[5, EOS]] * 3)
    batches = PackedBatches(source, target, row_length=32, rows_per_batch=2, seed=0)
    assert len(epoch_of(batches, 0)) == 3


def test_a_sentence_longer_than_the_row():
    """Catches a search for rows that never ends, where no row can hold a pair."""
    with pytest.raises(ValueError, match="A target of 33 tokens fits no row of 32"):
        sides = (Ragged.from_lists([[5] * length + [EOS]]) for length in (3, 32))
        PackedBatches(*sides, row_length=32, rows_per_batch=1, seed=0)


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_rows_per_batch_changes_no_pair(rows):
    """Catches a plan that depends on the number of devices: same pairs, whatever the rows."""
    assert sorted(epoch_of(batches_of(100, rows=rows), 2)) == sorted(epoch_of(batches_of(100), 0))


def test_a_few_long_sources_are_counted_and_left_out():
    """Catches rows that one long source in a thousand makes longer, and its loss in silence."""
    sources = [[i + 10] * (30 if i in (5, 1234) else 6) for i in range(3000)]
    source, target = Ragged.from_lists(sources), Ragged.from_lists([[7] * 8] * 3000)
    rows = dict(row_length=32, rows_per_batch=8, seed=0)
    batches = PackedBatches(source, target, **rows, too_long=0.001)
    assert batches.shape == (24, 32) and batches.num_too_long == 2
    shown = sorted(source[0] - 10 for source, _ in epoch_of(batches, 0))
    assert shown == sorted(set(range(3000)) - {5, 1234})
    batches = PackedBatches(source, target, **rows)
    assert batches.shape == (30, 32) and batches.num_too_long == 0
    assert len(epoch_of(batches, 0)) == 3000


@pytest.mark.parametrize("name", CONFIGS)
def test_at_least_98_percent_of_the_tokens_are_real(name):
    """Catches a packing that wastes the device; also: no pair of a real corpus is lost."""
    config = CONFIGS[name].get_config()
    if name == "multi30k":
        config.data.corpus = str(ROOT / config.data.corpus)
        if not pathlib.Path(config.data.corpus).is_dir():
            pytest.skip("data/multi30k is missing")
    pairs = list(TrainingText(config.data).pairs())
    tokenizers = train_tokenizers(config.tokenizer, pairs)
    sides = [
        Ragged.encode(tokenizer, [pair[side] for pair in pairs])
        for side, tokenizer in enumerate(tokenizers)
    ]
    row_length = config.data.row_length
    kept = filter_by_length(*sides, row_length, config.data.max_length_ratio).kept
    assert len(kept) >= 0.99 * len(pairs)
    source, target = (side.take(kept) for side in sides)
    batches = PackedBatches(
        source,
        target,
        row_length=row_length,
        rows_per_batch=config.training.batch_tokens // row_length,
        seed=0,
    )
    n = batches.batches_per_epoch
    assert batches.fill(n) >= 0.98
    for epoch in (0, 1):
        steps = range(epoch * n, epoch * n + n)
        assert sum(batches[step].weights.sum() for step in steps) == target.lengths.sum()
