"""Which pairs are in which row of which batch: a function of (seed, step), in bounded memory.

An epoch is cut into blocks of at most `BLOCK_PAIRS` pairs, drawn at random, and every block fills
the same number of batches. A block is planned as a whole when one of its batches is asked for: its
pairs are packed into rows and the rows are shuffled. So the first batch of an epoch costs no more
than its block, a run resumes without the state of an iterator, and the number of hosts or devices
changes nothing.
"""

import math
import warnings
from collections.abc import Sequence
from functools import cached_property, lru_cache
from threading import Lock, Thread
from typing import NamedTuple

import numpy as np
from numpy.random import Generator

from transformer.data.bin_packing import fewest_rows, pack
from transformer.data.epoch_pairs import CorpusPart, EpochPairs

BLOCK_PAIRS = 2**19  # planned at once; takes about a second
SAMPLE_PAIRS = 2**16  # packed at the start, to learn how full rows become
TRIES = 4  # attempts to pack a block with no pair left over
STANDARD_DEVIATIONS = 6  # by which a block may be longer than the mean: one in 10⁹ is


class BlockPlan(NamedTuple):
    """The pairs of a block, row by row: row r holds pairs[starts[r]:starts[r + 1]]."""

    pairs: np.ndarray
    starts: np.ndarray  # [number of rows + 1]


class EpochPlan:
    """The rows of every batch, from step 0 on, epoch after epoch."""

    def __init__(
        self,
        lengths: tuple[np.ndarray, np.ndarray],
        shape: tuple[int, int],
        *,
        rows_per_batch: int,
        seed: int,
        parts: Sequence[CorpusPart],
    ) -> None:
        """Finds how many batches an epoch has.

        lengths: of all pairs' sources and targets, perhaps mapped from a file. shape: (S, T).
        Pairs whose source is longer than S are left out. parts: the corpora that the pairs belong
        to, in order.
        """
        self.lengths, self.shape = lengths, shape
        self.rows_per_batch, self.seed = rows_per_batch, seed
        self.epoch_pairs = EpochPairs(parts, seed)
        self.pairs_per_epoch = len(self.epoch_pairs)
        self.num_blocks = math.ceil(self.pairs_per_epoch / BLOCK_PAIRS)
        self._planning, self._planned = Lock(), lru_cache(maxsize=2)(self._make_plan)
        self._planned_ahead = -1  # the last block that `plan_ahead` began with
        self._known_packing: tuple[np.ndarray, np.ndarray] | None = None
        self.batches_per_block = self._count_batches()
        self.batches_per_epoch = self.num_blocks * self.batches_per_block

    @cached_property
    def sample(self) -> np.ndarray:
        """The first epoch's pairs, or `SAMPLE_PAIRS` of them drawn at random if they are more."""
        if self.pairs_per_epoch <= SAMPLE_PAIRS:
            return self._that_fit(self.epoch_pairs.at(0, np.arange(self.pairs_per_epoch)))
        return self._that_fit(self.epoch_pairs.shuffled(0, 0, SAMPLE_PAIRS))

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the lengths [2, pairs] of some pairs, source first."""
        return np.stack([side[pairs] for side in self.lengths]).astype(np.int64)

    def _count_batches(self) -> int:
        """Returns the number of batches of a block, from a sample and the lengths of all pairs.

        An epoch that is its own sample, of the same pairs as every other, is packed as it is. Else
        a block gets as many rows as it needs at the fill that the sample reached (more pairs can
        only be packed better), and more for the chance that its pairs are longer than the mean: 6
        standard deviations. For 524,288 pairs of 14 ± 8 tokens these are 6 · 8 / (14 · 724) = 0.5%.
        """
        sample, rng = self.sample, np.random.default_rng((self.seed, 0))
        lengths = self.lengths_of(sample)
        is_all = self.pairs_per_epoch <= SAMPLE_PAIRS
        is_every_epoch = is_all and not self.epoch_pairs.num_varying
        unit = self.rows_per_batch if is_every_epoch else 1
        num_rows, row_of = fewest_rows(lengths, self.shape, unit, rng)
        if is_every_epoch:
            self._known_packing = sample, row_of
            return num_rows // self.rows_per_batch
        rows_per_full_row = num_rows / (lengths.sum(1) / self.shape).max()
        full_rows = (self._longest_block() / self.shape).max()
        return math.ceil(full_rows * rows_per_full_row / self.rows_per_batch)

    def _longest_block(self) -> np.ndarray:
        """Returns how many tokens a block may have on either side."""
        num_pairs = math.ceil(self.pairs_per_epoch / self.num_blocks)
        num_varying = num_pairs if self.num_blocks > 1 else self.epoch_pairs.num_varying
        means = np.array([self.epoch_pairs.mean(side) for side in self.lengths])
        deviations = np.array([_standard_deviation(side) for side in self.lengths_of(self.sample)])
        return num_pairs * means + STANDARD_DEVIATIONS * deviations * math.sqrt(num_varying)

    def rows(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the pairs of a batch, row by row, how many of them each row [B] has)."""
        block, index = divmod(step, self.batches_per_block)
        with self._planning:  # a second caller waits instead of making the same plan
            plan = self._planned(block)
        starts = plan.starts[index * self.rows_per_batch :][: self.rows_per_batch + 1]
        return plan.pairs[starts[0] : starts[-1]], np.diff(starts)

    def plan_ahead(self, step: int) -> None:
        """Starts to plan the next block in a thread, in the second half of the one of `step`."""
        block, index = divmod(step, self.batches_per_block)
        if 2 * index >= self.batches_per_block - 1 and self._planned_ahead != block + 1:
            self._planned_ahead = block + 1
            next_step = (block + 1) * self.batches_per_block
            Thread(target=self.rows, args=(next_step,), daemon=True).start()

    def _make_plan(self, block: int) -> BlockPlan:
        """Packs the pairs of a block, counted from the first epoch's first, and shuffles rows."""
        rng = np.random.default_rng((self.seed, block))
        pairs, row_of = self._pack(block, rng)
        num_rows = self.batches_per_block * self.rows_per_batch
        row_of = np.where(row_of < 0, num_rows, rng.permutation(num_rows)[row_of])
        order = np.argsort(row_of, kind="stable")
        return BlockPlan(pairs[order], np.searchsorted(row_of[order], np.arange(num_rows + 1)))

    def _pack(self, block: int, rng: Generator) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the pairs of a block, their rows); -1 for one left out, of which it warns."""
        pairs = self._pairs_of(block)
        lengths, num_rows = self.lengths_of(pairs), self.batches_per_block * self.rows_per_batch
        row_of = np.full(len(pairs), -1)
        for _ in range(TRIES):
            row_of = pack(lengths, self.shape, num_rows, rng)
            if (row_of >= 0).all():
                return pairs, row_of
        if self._known_packing:
            return self._known_packing
        epoch, block = divmod(block, self.num_blocks)
        warnings.warn(
            f"{(row_of < 0).sum():,} of the {len(pairs):,} pairs in block {block + 1} of "
            f"{self.num_blocks} of epoch {epoch + 1} fit none of its {num_rows:,} rows; they are "
            f"left out of this epoch.",
            stacklevel=2,
        )
        return pairs, row_of

    def _pairs_of(self, block: int) -> np.ndarray:
        """Returns the pairs of a block in the order of the corpus, as it reads fastest."""
        epoch, block = divmod(block, self.num_blocks)
        bounds = [k * self.pairs_per_epoch // self.num_blocks for k in (block, block + 1)]
        if self.num_blocks == 1:
            return self._that_fit(self.epoch_pairs.at(epoch, np.arange(*bounds)))
        return self._that_fit(np.sort(self.epoch_pairs.shuffled(epoch, *bounds)))

    def _that_fit(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the pairs whose source is not longer than S."""
        return pairs[self.lengths[0][pairs] <= self.shape[0]]


def _standard_deviation(numbers: np.ndarray) -> float:
    """Returns that of integers, from sums of integers: the same to the last bit everywhere."""
    n, total, squares = len(numbers), int(numbers.sum()), int((numbers**2).sum())
    return math.sqrt(n * squares - total**2) / n
