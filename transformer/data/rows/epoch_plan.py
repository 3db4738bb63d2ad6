"""Which pairs are in which row of which batch: a function of (seed, step), in bounded memory.

An epoch is cut into blocks of at most `BLOCK_PAIRS` pairs, drawn at random, and every block fills
the same number of batches. A block is planned as a whole when one of its batches is asked for: its
pairs are packed into rows and the rows are shuffled. So the first batch of an epoch costs no more
than its block, and a run resumes without the state of an iterator.
"""

import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from transformer.data.rows.bin_packing import fewest_rows, pack

ROUNDS = 6  # four make a Feistel network pseudo-random (Luby and Rackoff, 1988)
TURNS, ORDER = 2, 3  # streams of random numbers apart from those of packing and masking
BLOCK_PAIRS = 2**19  # planned at once; takes about a second
SAMPLE_PAIRS = 2**16  # packed at the start, to learn how full rows become
TRIES = 4  # attempts to pack a block with no pair left over
STANDARD_DEVIATIONS = 6  # by which a block may be longer than the mean: one in 10⁹ is


def permute(indices: np.ndarray, size: int, key: tuple[int, ...]) -> np.ndarray:
    """Returns the places of some `indices` in a random order of 0 to size - 1; key: of the order.

    It is a Feistel network over numbers below any size, stored nowhere (Black and Rogaway, 2002,
    "Ciphers with Arbitrary Finite Domains").

    A number x is written as two digits, left = x // b and right = x % b, with a possible left and b
    possible right digits, where a·b is at least `size`. A round adds a hash of one digit to the
    other one, which can be undone, so that different numbers stay different. A result that is not
    below `size` goes through the rounds again, until it is ("cycle walking"). For size 7, a = 3 and
    b = 3; x = 5 has the digits 1 and 2:

        left  + hash(right)   1 + 4 = 2 (mod 3)
        right + hash(left)    2 + 3 = 2 (mod 3)     x = 2·3 + 2 = 8, which is not below 7: again
    """
    num_left = math.isqrt(size - 1) + 1
    num_right = -(-size // num_left)
    keys = np.random.default_rng(key).integers(2**64, size=(ROUNDS, 2), dtype=np.uint64)
    places = np.array(indices, np.uint64)
    walking = np.arange(places.size)
    while len(walking):
        left, right = np.divmod(places[walking], np.uint64(num_right))
        for left_key, right_key in keys:
            left = (left + mix(right ^ left_key) % np.uint64(num_left)) % np.uint64(num_left)
            right = (right + mix(left ^ right_key) % np.uint64(num_right)) % np.uint64(num_right)
        places[walking] = left * np.uint64(num_right) + right
        walking = walking[places[walking] >= size]
    return places.astype(np.int64)


def mix(x: np.ndarray) -> np.ndarray:
    """Mixes the bits of 64-bit numbers, as the generator SplitMix64 does."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class CorpusPart(NamedTuple):
    """Pairs that lie one after another and have the same weight."""

    num_pairs: int
    weight: float = 1.0  # how often an epoch shows each pair, on average


def with_temperature(parts: Sequence[CorpusPart], temperature: float) -> list[CorpusPart]:
    """Returns the parts with weights for sampling by size^(1/T), T being the temperature.

    A part's share of an epoch is in proportion to weight · num_pairs^(1/T), and the epoch holds as
    many pairs as without temperature: T = 1 changes nothing. Arivazhagan et al. (2019, "Massively
    Multilingual Neural Machine Translation in the Wild", section 4.2) sample so, with T = 5; the
    exponent α of mBART (Liu et al., 2020) is 1/T.

    Two corpora of 900 and 100 pairs, T = 2: shares as 30 to 10, so that of 1,000 pairs in an epoch
    750 and 250 are theirs, and the weights 750/900 = 0.83 and 250/100 = 2.5.
    """
    sizes = np.array([part.num_pairs for part in parts], float)
    weights = np.array([part.weight for part in parts], float)
    shares = weights * sizes ** (1 / temperature)
    shown = (weights * sizes).sum() * shares / shares.sum()  # pairs in an epoch
    weights = np.divide(shown, sizes, out=weights, where=sizes > 0)
    return [part._replace(weight=w) for part, w in zip(parts, weights.tolist(), strict=True)]


class EpochPairs:
    """The pairs of every epoch, whose number is always the same: `len`.

    A corpus of n pairs and weight w fills round(w·n) places of an epoch, at least one. Every n of
    them hold each pair once. What is left goes to pairs in a random order of the corpus, each
    epoch to those that come next. Corpora of 4 pairs (0 to 3) with weight 1.5 and of 2 pairs (4, 5)
    with weight 1; the random order of the first one is 2 0 3 1:

        place     0 1 2 3   4 5   6 7
        epoch 0   0 1 2 3   2 0   4 5
        epoch 1   0 1 2 3   3 1   4 5
        epoch 2   0 1 2 3   2 0   4 5
    """

    def __init__(self, parts: Sequence[CorpusPart], seed: int) -> None:
        self.parts, self.seed = list(parts), seed
        self.places = [max(1, round(p.weight * p.num_pairs)) if p.num_pairs else 0 for p in parts]

    def __len__(self) -> int:
        return sum(self.places)

    @property
    def num_varying(self) -> int:
        """The number of places at which another epoch may hold another pair."""
        return sum(n % part.num_pairs for n, part in zip(self.places, self.parts, strict=True) if n)

    def at(self, epoch: int, places: np.ndarray) -> np.ndarray:
        """Returns the indices of the pairs at some places of an epoch."""
        pairs = np.empty(len(places), np.int64)
        first_place = first_pair = 0
        for number, (part, count) in enumerate(zip(self.parts, self.places, strict=True)):
            here = np.flatnonzero((places >= first_place) & (places < first_place + count))
            if len(here):
                place, num_extra = places[here] - first_place, count % part.num_pairs
                is_extra = place >= count - num_extra
                turns = epoch * num_extra + place[is_extra] - (count - num_extra)
                key = self.seed, number, TURNS
                place[is_extra] = permute(turns % part.num_pairs, part.num_pairs, key)
                pairs[here] = first_pair + place % part.num_pairs
            first_place, first_pair = first_place + count, first_pair + part.num_pairs
        return pairs

    def mean(self, lengths: np.ndarray) -> float:
        """Returns the mean of `lengths`, one for each pair, over the pairs of all epochs."""
        total, first = 0.0, 0  # sums of integers are the same to the last bit on every machine
        for part, places in zip(self.parts, self.places, strict=True):
            if places:
                sum_of_part = int(lengths[first : first + part.num_pairs].sum(dtype=np.int64))
                total += places * sum_of_part / part.num_pairs
            first += part.num_pairs
        return total / len(self)


@dataclass(eq=False)
class EpochPlan:
    """The rows of every batch, from step 0 on, epoch after epoch."""

    lengths: Sequence[np.ndarray]  # of all pairs' sources and targets
    shape: tuple[int, int]  # (S, T); pairs whose source is longer than S are left out
    rows_per_batch: int
    seed: int
    parts: Sequence[CorpusPart]  # the corpora that the pairs belong to, in order

    def __post_init__(self) -> None:
        self.epoch_pairs = EpochPairs(self.parts, self.seed)
        self.pairs_per_epoch = len(self.epoch_pairs)
        self.num_blocks = math.ceil(self.pairs_per_epoch / BLOCK_PAIRS)
        planner = ThreadPoolExecutor(1, "plan")
        self._plan = lru_cache(2)(lambda block: planner.submit(self._make_plan, block))
        self._known_packing: tuple[np.ndarray, np.ndarray] | None = None
        self.sample = self._pairs(0, 0, min(self.pairs_per_epoch, SAMPLE_PAIRS))
        self.batches_per_block = self._count_batches()
        self.batches_per_epoch = self.num_blocks * self.batches_per_block

    def _pairs(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """Returns all pairs of an epoch that fit, or a part of them in a random order."""
        places = np.arange(start, stop)
        if len(places) < self.pairs_per_epoch:
            places = permute(places, self.pairs_per_epoch, (self.seed, epoch, ORDER))
        pairs = self.epoch_pairs.at(epoch, places)
        return pairs[self.lengths[0][pairs] <= self.shape[0]]

    def lengths_of(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the lengths [2, pairs] of some pairs, source first."""
        return np.stack([side[pairs] for side in self.lengths]).astype(np.int64)

    def _count_batches(self) -> int:
        """Returns the number of batches of a block.

        An epoch that is its own sample, of the same pairs as every other, is packed as it is. Else
        a block gets as many rows as it needs at the fill that the sample reached (more pairs can
        only be packed better), and more for the chance that its pairs are longer than the mean: 6
        standard deviations. For 524,288 pairs of 14 ± 8 tokens these are 6 · 8 / (14 · 724) = 0.5%.
        """
        lengths, rng = self.lengths_of(self.sample), np.random.default_rng((self.seed, 0))
        num_varying = self.epoch_pairs.num_varying
        is_every_epoch = self.pairs_per_epoch <= SAMPLE_PAIRS and not num_varying
        unit = self.rows_per_batch if is_every_epoch else 1
        num_rows, row_of = fewest_rows(lengths, self.shape, unit, rng)
        if is_every_epoch:
            self._known_packing = self.sample, row_of
            return num_rows // self.rows_per_batch
        rows_per_full_row = num_rows / (lengths.sum(1) / self.shape).max()
        num_pairs = math.ceil(self.pairs_per_epoch / self.num_blocks)
        varying = math.sqrt(num_pairs if self.num_blocks > 1 else num_varying)
        means = np.array([self.epoch_pairs.mean(side) for side in self.lengths])
        n = lengths.shape[1]
        variances = [n * int((side**2).sum()) - int(side.sum()) ** 2 for side in lengths]
        deviations = np.array([math.sqrt(variance) / n for variance in variances])
        longest = num_pairs * means + STANDARD_DEVIATIONS * deviations * varying
        full_rows = (longest / self.shape).max()
        return math.ceil(full_rows * rows_per_full_row / self.rows_per_batch)

    def rows(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the pairs of a batch, row by row, how many of them each row [B] has).

        From the middle of a block on, a thread plans the next one.
        """
        block, index = divmod(step, self.batches_per_block)
        pairs, starts = self._plan(block).result()
        if 2 * index >= self.batches_per_block - 1:
            self._plan(block + 1)
        starts = starts[index * self.rows_per_batch :][: self.rows_per_batch + 1]
        return pairs[starts[0] : starts[-1]], np.diff(starts)

    def _make_plan(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Packs the pairs of a block, counted from the first epoch's first, and shuffles the rows.

        Returns (pairs, starts [number of rows + 1]): row r holds pairs[starts[r]:starts[r + 1]].
        """
        rng = np.random.default_rng((self.seed, number))
        epoch, block = divmod(number, self.num_blocks)
        start, stop = (self.pairs_per_epoch * k // self.num_blocks for k in (block, block + 1))
        pairs = self._pairs(epoch, start, stop)
        num_rows = self.batches_per_block * self.rows_per_batch
        if self.num_blocks > 1:
            pairs.sort()  # the order of the corpus reads fastest
        lengths, row_of = self.lengths_of(pairs), np.full(len(pairs), -1)
        for _ in range(TRIES):
            if (row_of < 0).any():
                row_of = pack(lengths, self.shape, num_rows, rng)
        if (row_of < 0).any() and self._known_packing:
            pairs, row_of = self._known_packing
        if num_left_out := (row_of < 0).sum():
            message = (
                f"Block {block + 1} of {self.num_blocks} of epoch {epoch + 1} leaves out "
                f"{num_left_out:,} of its {len(pairs):,} pairs: they fit none of {num_rows:,} rows."
            )
            warnings.warn(message, stacklevel=2)
        row_of = np.where(row_of < 0, num_rows, rng.permutation(num_rows)[row_of])
        order = np.argsort(row_of, kind="stable")
        return pairs[order], np.searchsorted(row_of[order], np.arange(num_rows + 1))
