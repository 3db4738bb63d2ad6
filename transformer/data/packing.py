"""Ids -> batches of one static shape: a batch is a pure function of (seed, step).

An epoch is planned as a whole: every pair is placed in one of a fixed number of rows (packing),
rows are shuffled, and batch k is rows k·B to (k+1)·B. Resuming needs no iterator state, and the
number of hosts or devices changes nothing.
"""

from collections import Counter
from functools import lru_cache
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np

from transformer.data.batch import Batch
from transformer.data.ragged import Ragged


def num_rows_of_batch(batch_tokens, row_length):
    """The rows that `batch_tokens` allow: a multiple of 8 if there are so many, as devices are.

    They do not depend on the devices that are there, so that a run may go on on others.
    """
    rows = batch_tokens // row_length
    if not rows:
        raise ValueError(
            f"training.batch_tokens ({batch_tokens}) must hold at least one row of "
            f"data.row_length ({row_length}); raise one or lower the other."
        )
    return rows - rows % 8 if rows > 8 else rows


class Filtered(NamedTuple):
    """Which pairs may be trained on, and why the others may not."""

    kept: np.ndarray  # indices of pairs
    skipped: Counter[str]  # number of pairs by reason


def filter_by_length(
    source: Ragged, target: Ragged, row_length: int, max_length_ratio: float
) -> Filtered:
    """Finds the pairs whose longer side fits a row and is not too long beside the shorter side.

    max_length_ratio: the largest number of times that the longer side may be as long as the
    shorter one; 0: any.
    """
    longest = np.maximum(source.lengths, target.lengths)
    shortest = np.minimum(source.lengths, target.lengths)
    too_long = longest > row_length
    uneven = ~too_long & (longest > (max_length_ratio or np.inf) * shortest)
    skipped = {
        f"more than {row_length} pieces": int(too_long.sum()),
        f"a length ratio above {max_length_ratio:g}": int(uneven.sum()),
    }
    skipped = Counter({reason: count for reason, count in skipped.items() if count})
    return Filtered(np.flatnonzero(~too_long & ~uneven), skipped)


def pack(source_lengths, target_lengths, shape, num_rows, rng):
    """Places pairs in `num_rows` rows of shape (S, T): the row of each pair, -1 where none is left.

    The longest pairs go first, each round one to every row, the longest to the emptiest row, or
    (every second round) those with much source to rows with much target. Vectorised over rows: an
    epoch of millions of pairs takes seconds.
    """
    share = np.stack([source_lengths / shape[0], target_lengths / shape[1]])  # of a row, [2, pairs]
    size, tilt = share.max(0), share[0] - share[1]
    load = np.zeros((2, num_rows))
    row_of = np.full(len(size), -1)
    pending = _longest_first(rng.permutation(len(size)), size)
    for round_number in range(len(size)):
        items, pending = pending[:num_rows], pending[num_rows:]
        rows = np.argsort(load.max(0), kind="stable")[: len(items)]
        if round_number % 2:
            items = items[np.argsort(-tilt[items], kind="stable")]
            rows = rows[np.argsort((load[0] - load[1])[rows], kind="stable")]
        fits = (load[:, rows] + share[:, items] <= 1 + 1e-9).all(0)
        row_of[items[fits]] = rows[fits]
        load[:, rows[fits]] += share[:, items[fits]]
        pending = np.concatenate([_longest_first(items[~fits], size), pending])
        if not len(pending) or not fits.any():
            break
    return row_of


def _longest_first(items, size):
    return items[np.argsort(-size[items], kind="stable")]


class PackedBatches:
    """`batches[step]` is a `Batch` of B rows, for every step from 0 on, epoch after epoch.

    source, target: `Ragged` of the same pairs; row_length T; source_length S, 0: as goes with T;
    rows_per_batch B; weights says how often an epoch shows each pair (None: once). Evaluation reads
    the first `batches_per_epoch` of an object of its own: each pair once, the last rows empty.
    """

    TRIES = 4  # at a packing of an epoch that leaves no pair over

    def __init__(
        self, source, target, *, row_length, source_length=0, rows_per_batch, seed, weights=None
    ):
        self.source, self.target, self.weights = source, target, weights
        self.seed, self.rows_per_batch = seed, rows_per_batch
        self.shape = (source_length or self._source_row_length(row_length), row_length)
        self._planning, self._planned = Lock(), lru_cache(maxsize=2)(self._make_plan)
        self.batches_per_epoch, self._first_packing = self._pack_first_epoch()

    def _source_row_length(self, row_length):
        """So much source as goes with `row_length` of target, and room for the longest."""
        ratio = self.source.lengths.sum() / self.target.lengths.sum()
        return max(round(row_length * ratio), int(self.source.lengths.max()))

    def _items(self, rng):
        """The pairs of one epoch, as indices."""
        if self.weights is None:
            return np.arange(len(self.source))
        times = np.floor(self.weights + rng.random(len(self.weights))).astype(int)
        return np.repeat(np.arange(len(times)), times)

    def _pack_first_epoch(self):
        """(the fewest batches that hold the first epoch, (its pairs, the row of each))."""
        rng = np.random.default_rng((self.seed, 0))
        items = self._items(rng)
        full = max(
            self.source.lengths[items].sum() / self.shape[0],
            self.target.lengths[items].sum() / self.shape[1],
        )
        num_batches = max(1, int(np.ceil(full / self.rows_per_batch)))
        while ((row_of := self._pack(items, num_batches, rng)) < 0).any():
            num_batches += max(1, num_batches // 200)
        return num_batches, (items, row_of)

    def _pack(self, items, num_batches, rng):
        lengths = self.source.lengths[items], self.target.lengths[items]
        return pack(*lengths, self.shape, num_batches * self.rows_per_batch, rng)

    def _plan(self, epoch):
        with self._planning:  # who comes while it is being made waits, and does not make it again
            return self._planned(epoch)

    def _make_plan(self, epoch):
        """(pairs in the order of their rows, the start of each row in it, and the end)."""
        rng = np.random.default_rng((self.seed, epoch))
        items = self._items(rng)
        for _ in range(self.TRIES):
            row_of = self._pack(items, self.batches_per_epoch, rng)
            if (row_of >= 0).all():
                break
        else:  # the packing of the first epoch is known to hold every pair; its rows are shuffled
            items, row_of = self._first_packing
        num_rows = self.batches_per_epoch * self.rows_per_batch
        row_of = rng.permutation(num_rows)[row_of]
        order = np.argsort(row_of, kind="stable")
        return items[order], np.searchsorted(row_of[order], np.arange(num_rows + 1))

    def __getitem__(self, step):
        epoch, index = divmod(step, self.batches_per_epoch)
        pairs, starts = self._plan(epoch)
        rows = starts[index * self.rows_per_batch :][: self.rows_per_batch + 1]
        return Batch.from_pairs(
            self.source,
            self.target,
            pairs[rows[0] : rows[-1]],
            pairs_per_row=np.diff(rows),
            source_length=self.shape[0],
            target_length=self.shape[1],
        )

    def plan_ahead(self, step):
        """Halfway through an epoch, starts to plan the next: millions of pairs take seconds."""
        epoch, index = divmod(step, self.batches_per_epoch)
        if index == self.batches_per_epoch // 2:
            Thread(target=self._plan, args=(epoch + 1,), daemon=True).start()

    @property
    def first_epoch(self):
        """The pairs of the first epoch, as indices."""
        return self._first_packing[0]

    def fill(self, num_batches=1):
        """The share of real tokens in the first `num_batches` batches of the first epoch."""
        batches = [self[step] for step in range(min(num_batches, self.batches_per_epoch))]
        segments = [s for b in batches for s in (b.input_segments, b.target_segments)]
        return sum((s != 0).sum() for s in segments) / sum(s.size for s in segments)
