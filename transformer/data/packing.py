"""Packs sentence pairs into batches of one static shape; a batch is a function of (seed, step).

An epoch is planned as a whole: every pair is assigned to one of a fixed number of rows, the rows
are shuffled, and batch k is rows k·B to (k+1)·B. So a run resumes without the state of an iterator,
and the number of hosts or devices changes nothing.
"""

from functools import lru_cache
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from transformer.data.batch import Batch
from transformer.data.ragged import Ragged

SENTENCE_LENGTH = 32  # tokens, about the mean of news text


def full_rows(batch_tokens: int, row_length: int) -> np.ndarray:
    """Returns the lengths of sentences of `SENTENCE_LENGTH` tokens that fill the rows of a batch.

    They stand for text that is not at hand.
    """
    num_tokens = num_rows_of_batch(batch_tokens, row_length) * row_length
    return np.full(num_tokens // SENTENCE_LENGTH, SENTENCE_LENGTH)


def num_rows_of_batch(batch_tokens: int, row_length: int) -> int:
    """Returns how many rows `batch_tokens` target positions allow, rounded to a multiple of 8.

    Up to 8 rows are not rounded. The number does not depend on the devices at hand, so that a run
    can resume on others. Raises ValueError if not even one row fits.
    """
    rows = batch_tokens // row_length
    if not rows:
        raise ValueError(
            f"training.batch_tokens ({batch_tokens}) must hold at least one row of "
            f"data.row_length ({row_length}); raise one or lower the other."
        )
    return rows - rows % 8 if rows > 8 else rows


def pack(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    shape: tuple[int, int],
    num_rows: int,
    rng: Generator,
) -> np.ndarray:
    """Assigns pairs to `num_rows` rows of shape (S, T), greedily, the longest pairs first.

    Returns the row of each pair, or -1 for a pair that was left over.

    A pair takes a share of a row on either side: source length / S and target length / T. Its size
    is the larger share, its tilt the source share minus the target share. Each round offers one
    pair to every row. Even rounds offer the longest pair to the emptiest row, the next longest to
    the next emptiest, and so on. Odd rounds match pairs that are long on the source side with rows
    that are fuller on the target side, so that both sides fill up alike. A pair that does not fit
    its row waits for the next round. Rounds are vectorised over rows: an epoch of millions of pairs
    takes seconds.

    Five pairs in two rows of shape (10, 10); a row's load is (source, target):

        pair             A      B      C      D      E
        lengths          7, 5   5, 6   4, 3   2, 5   1, 1

        round 0 (size)   A (.7) to row 0, B (.6) to row 1    loads (.7, .5)   (.5, .6)
        round 1 (tilt)   C (+.1) to row 1, which is fuller on the target side,
                         D (-.3) to row 0                    loads (.9, 1.)   (.9, .9)
        round 2 (size)   E to row 1                          loads (.9, 1.)   (1., 1.)

        returns          0      1      1      0      1
    """
    shares = np.stack([source_lengths / shape[0], target_lengths / shape[1]])  # [2, pairs]
    size, tilt = shares.max(0), shares[0] - shares[1]
    load = np.zeros((2, num_rows))
    row_of = np.full(len(size), -1)
    pending = _longest_first(rng.permutation(len(size)), size)
    for round_number in range(len(size)):
        offered, pending = pending[:num_rows], pending[num_rows:]
        rows = np.argsort(load.max(0), kind="stable")[: len(offered)]
        if round_number % 2:
            offered = offered[np.argsort(-tilt[offered], kind="stable")]
            rows = rows[np.argsort((load[0] - load[1])[rows], kind="stable")]
        fits = (load[:, rows] + shares[:, offered] <= 1 + 1e-9).all(0)
        row_of[offered[fits]] = rows[fits]
        load[:, rows[fits]] += shares[:, offered[fits]]
        pending = np.concatenate([_longest_first(offered[~fits], size), pending])
        if not len(pending) or not fits.any():
            break
    return row_of


def _longest_first(pairs: np.ndarray, size: np.ndarray) -> np.ndarray:
    return pairs[np.argsort(-size[pairs], kind="stable")]


class _EpochPlan(NamedTuple):
    """The pairs of an epoch, row by row: row r holds pairs[starts[r]:starts[r + 1]]."""

    pairs: np.ndarray
    starts: np.ndarray  # [number of rows + 1]


class PackedBatches:
    """`batches[step]` is a `Batch` of B rows, for every step from 0 on, epoch after epoch.

    Rows that hold 7 or more sentences of mean length are filled to 95-99% with tokens, rows that
    hold 4 to about 91%, rows that hold 2 to 75%. The last batch of an epoch may be partly empty.

    Evaluation reads the first `batches_per_epoch` batches of its own object: they hold each pair
    once.
    """

    TRIES = 4  # attempts to pack an epoch with no pair left over

    def __init__(
        self,
        source: Ragged,
        target: Ragged,
        *,
        row_length: int,
        source_length: int = 0,
        rows_per_batch: int,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> None:
        """Packs the first epoch.

        source, target: the two sides of the same pairs, none longer than a row.
        row_length: T, target tokens per row.
        source_length: S, source tokens per row; 0: in proportion to T, and at least the longest
            source sentence.
        weights: how often an epoch shows each pair, on average; None: once.
        """
        self.source, self.target, self.weights = source, target, weights
        self.seed, self.rows_per_batch = seed, rows_per_batch
        self.shape = (source_length or self._proportional_length(row_length), row_length)
        self._planning, self._planned = Lock(), lru_cache(maxsize=2)(self._make_plan)
        self.batches_per_epoch, self._first_packing = self._pack_first_epoch()

    def _proportional_length(self, row_length: int) -> int:
        """Returns S so that both sides of a row fill up alike, if the longest source fits it."""
        ratio = self.source.lengths.sum() / self.target.lengths.sum()
        return max(round(row_length * ratio), int(self.source.lengths.max()))

    def _draw_pairs(self, rng: Generator) -> np.ndarray:
        """Returns an epoch's pairs: one of weight 2.3 twice, with probability 0.3 three times."""
        if self.weights is None:
            return np.arange(len(self.source))
        times = np.floor(self.weights + rng.random(len(self.weights))).astype(int)
        return np.repeat(np.arange(len(times)), times)

    def _pack_first_epoch(self) -> tuple[int, tuple[np.ndarray, np.ndarray]]:
        """Returns (the number of batches that hold the first epoch, (its pairs, their rows))."""
        rng = np.random.default_rng((self.seed, 0))
        pairs = self._draw_pairs(rng)
        num_full_rows = max(
            self.source.lengths[pairs].sum() / self.shape[0],
            self.target.lengths[pairs].sum() / self.shape[1],
        )
        num_batches = max(1, int(np.ceil(num_full_rows / self.rows_per_batch)))
        while ((row_of := self._pack(pairs, num_batches, rng)) < 0).any():
            num_batches += max(1, num_batches // 200)
        return num_batches, (pairs, row_of)

    def _pack(self, pairs: np.ndarray, num_batches: int, rng: Generator) -> np.ndarray:
        lengths = self.source.lengths[pairs], self.target.lengths[pairs]
        return pack(*lengths, self.shape, num_batches * self.rows_per_batch, rng)

    def _plan(self, epoch: int) -> _EpochPlan:
        with self._planning:  # a second caller waits instead of making the same plan
            return self._planned(epoch)

    def _make_plan(self, epoch: int) -> _EpochPlan:
        """Packs the pairs of an epoch and shuffles the rows."""
        rng = np.random.default_rng((self.seed, epoch))
        pairs = self._draw_pairs(rng)
        for _ in range(self.TRIES):
            row_of = self._pack(pairs, self.batches_per_epoch, rng)
            if (row_of >= 0).all():
                break
        else:  # the packing of the first epoch is known to hold every pair; its rows are shuffled
            pairs, row_of = self._first_packing
        num_rows = self.batches_per_epoch * self.rows_per_batch
        row_of = rng.permutation(num_rows)[row_of]
        order = np.argsort(row_of, kind="stable")
        return _EpochPlan(pairs[order], np.searchsorted(row_of[order], np.arange(num_rows + 1)))

    def __getitem__(self, step: int) -> Batch:
        epoch, index = divmod(step, self.batches_per_epoch)
        plan = self._plan(epoch)
        starts = plan.starts[index * self.rows_per_batch :][: self.rows_per_batch + 1]
        return Batch.from_pairs(
            self.source,
            self.target,
            plan.pairs[starts[0] : starts[-1]],
            pairs_per_row=np.diff(starts),
            source_length=self.shape[0],
            target_length=self.shape[1],
        )

    def plan_ahead(self, step: int) -> None:
        """Starts to plan the next epoch in a thread, halfway through the one that holds `step`."""
        epoch, index = divmod(step, self.batches_per_epoch)
        if index == self.batches_per_epoch // 2:
            Thread(target=self._plan, args=(epoch + 1,), daemon=True).start()

    @property
    def first_epoch(self) -> np.ndarray:
        """The indices of the first epoch's pairs."""
        return self._first_packing[0]

    def fill(self, num_batches: int = 1) -> float:
        """Returns the share of positions that hold a token, in the first `num_batches` batches."""
        batches = [self[step] for step in range(min(num_batches, self.batches_per_epoch))]
        segments = [s for b in batches for s in (b.input_segments, b.target_segments)]
        return float(sum((s != 0).sum() for s in segments) / sum(s.size for s in segments))
