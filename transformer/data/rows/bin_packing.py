"""Packs sentence pairs into rows: bin packing in two dimensions, of a million pairs in a second."""

import math

import numpy as np
from numpy.random import Generator

from transformer.data.rows.ragged import count_up

SPARE_ROW_EVERY = 400  # one row in 400 is kept empty for pairs that fit nowhere else
MIN_SUCCESS = 0.01  # dealing stops when fewer than 1 % of the offered pairs fit
PLACES = 8  # of a row that are tried for an exchange at a time
ROWS_AT_ONCE = 16_384  # that exchange pairs; bounds the memory
PATIENCE = 16  # trials of every overfull row, within which the overflow must halve


def fewest_rows(
    lengths: np.ndarray, shape: tuple[int, int], unit: int, rng: Generator
) -> tuple[int, np.ndarray]:
    """Returns (a multiple of `unit` of rows that holds all pairs, the row of each), as of `pack`.

    It begins at 0.5% above what would hold every token, and while pairs are left over it grows by
    an eighth of what they would fill, 0.5% at least.
    """
    assert (lengths.max(1) <= shape).all(), "a pair that is longer than a row fits into none"
    num_units = math.ceil(1.005 * (lengths.sum(1) / shape).max() / unit)
    row_of = pack(lengths, shape, num_units * unit, rng)
    while (row_of < 0).any():
        missing = (lengths[:, row_of < 0].sum(1) / shape).max()
        num_units += max(1, num_units // 200, math.ceil(missing / 8 / unit))
        row_of = pack(lengths, shape, num_units * unit, rng)
    return num_units * unit, row_of


def pack(lengths: np.ndarray, shape: tuple[int, int], num_rows: int, rng: Generator) -> np.ndarray:
    """Assigns pairs to `num_rows` rows of shape (S, T); returns the row of each, or -1 for none.

    lengths [2, pairs]: the lengths of each pair, source first; none above S or T.

    First `_deal` gives pairs to rows as long as they fit. The others are put on the emptiest rows
    all the same, and `_OverfullRows` exchanges pairs until all fit or hardly any more can be made
    to. The few that remain, mostly as long as a row, go to spare rows that were kept for them.
    """
    shares = lengths / np.array(shape)[:, None]
    num_spare = num_rows // SPARE_ROW_EVERY
    row_of = _deal(shares, num_rows - num_spare, rng)
    if (row_of < 0).any():
        rows = _OverfullRows(lengths, shape, row_of, num_rows - num_spare)
        rows.exchange(rng)
        row_of = rows.row_of()
    left_over = np.flatnonzero(row_of < 0)
    if num_spare and len(left_over):
        spare = _deal(shares[:, left_over], num_spare, rng)
        row_of[left_over] = np.where(spare < 0, -1, num_rows - num_spare + spare)
    return row_of


def _deal(shares: np.ndarray, num_rows: int, rng: Generator) -> np.ndarray:
    """Assigns pairs to rows greedily, the longest pairs first; returns the row of each, or -1.

    shares [2, pairs]: the part of a row that a pair takes on either side, source length / S and
    target length / T. Its size is the larger share, its tilt the source's minus the target's.

    Each round offers one pair to every row. Even rounds offer the longest pair to the emptiest row,
    the next longest to the next emptiest, and so on. Odd rounds match pairs that are long on the
    source side with rows that are fuller on the target side. A pair that does not fit waits.

    Five pairs in two rows of shape (10, 10); a row's load is (source, target):

        pair             A      B      C      D      E
        lengths          7, 5   5, 6   4, 3   2, 5   1, 1

        round 0 (size)   A (.7) to row 0, B (.6) to row 1    loads (.7, .5)   (.5, .6)
        round 1 (tilt)   C (+.1) to row 1, which is fuller on the target side,
                         D (-.3) to row 0                    loads (.9, 1.)   (.9, .9)
        round 2 (size)   E to row 1                          loads (.9, 1.)   (1., 1.)

        returns          0      1      1      0      1
    """
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
        if not len(pending) or fits.mean() < MIN_SUCCESS:
            break
    return row_of


def _longest_first(pairs: np.ndarray, size: np.ndarray) -> np.ndarray:
    return pairs[np.argsort(-size[pairs], kind="stable")]


class _OverfullRows:
    """Rows as `_deal` filled them, and the pairs left over on the emptiest of them.

    pair_at [places, rows]: the pair at each place of each row, or -1. lengths [2, pairs + 1] has
    the length 0 at its end, which -1 finds. load [2, rows]: the tokens of a row on either side.
    """

    def __init__(
        self, lengths: np.ndarray, shape: tuple[int, int], row_of: np.ndarray, num_rows: int
    ) -> None:
        shares, row_of = lengths / np.array(shape)[:, None], row_of.copy()
        load = np.stack([np.bincount(row_of + 1, share, num_rows + 1)[1:] for share in shares])
        left_over = _longest_first(np.flatnonzero(row_of < 0), shares.max(0))
        for start in range(0, len(left_over), num_rows):
            pairs = left_over[start : start + num_rows]
            rows = np.argsort(load.max(0), kind="stable")[: len(pairs)]
            row_of[pairs] = rows
            load[:, rows] += shares[:, pairs]
        order = np.argsort(row_of, kind="stable")
        counts = np.bincount(row_of, minlength=num_rows)
        self.pair_at = np.full((counts.max() + 1, num_rows), -1, np.int32)
        self.pair_at[count_up(counts), row_of[order]] = order
        self.capacity = np.array(shape, np.int32)
        self.lengths = np.pad(lengths, [(0, 0), (0, 1)]).astype(np.int32)
        self.load = self.lengths[:, self.pair_at].sum(1, dtype=np.int32)

    def _overflow(self, load: np.ndarray) -> np.ndarray:
        """Returns the tokens beyond the capacity of rows with this load [2, …], on both sides."""
        source, target = (np.maximum(x - n, 0) for x, n in zip(load, self.capacity, strict=True))
        return source + target

    def exchange(self, rng: Generator) -> None:
        """Swaps pairs between overfull rows and others until none is overfull or that stalls.

        A round matches overfull rows with others at random, and tries to swap every pair at
        `PLACES` places of one with every pair at as many places of the other; at an empty place
        there is no pair to give back. The swap that leaves the least overflow is made: the tokens
        beyond the capacity of the two rows, on both sides. Rows of shape (10, 10):

            row 0   (7, 5) (5, 6)          load (12, 11), overflow 2 + 1
            row 1   (4, 3) (2, 5) (1, 1)   load  (7,  9), overflow 0

            (5, 6) for (4, 3)   loads (11, 8) ( 8, 12)   overflow 1 + 2
            (5, 6) for (2, 5)   loads (9, 10) (10, 10)   overflow 0: made
        """
        crowded = np.flatnonzero(self._overflow(self.load))
        before = math.inf
        while (overflow := self._overflow(self.load[:, crowded]).sum()) and overflow < 0.5 * before:
            before = overflow
            for _ in range(PATIENCE * math.ceil(len(crowded) / ROWS_AT_ONCE)):
                crowded = self._exchange_round(rng.permutation(crowded), rng)

    def _exchange_round(self, crowded: np.ndarray, rng: Generator) -> np.ndarray:
        """Tries one swap in each of the first `crowded` rows; returns those that still are."""
        partners = rng.integers(0, self.load.shape[1], min(len(crowded), ROWS_AT_ONCE))
        _, first = np.unique(partners, return_index=True)  # one partner serves one row
        first = first[self._overflow(self.load[:, partners[first]]) == 0]
        if not len(first):
            return crowded
        one, other = crowded[first], partners[first]
        here, there = (rng.permutation(len(self.pair_at))[:PLACES] for _ in range(2))
        given = self.lengths[:, self.pair_at[here[:, None], one]]
        taken = self.lengths[:, self.pair_at[there[:, None], other]]
        change = taken[:, None] - given[:, :, None]  # [2, here, there, rows]
        overflow = self._overflow(self.load[:, None, None, one] + change)
        overflow += self._overflow(self.load[:, None, None, other] - change)
        overflow = overflow.reshape(-1, len(one))
        best = overflow.argmin(0)
        now = self._overflow(self.load[:, one])
        better = np.flatnonzero(overflow[best, np.arange(len(one))] < now)
        i, j = np.divmod(best[better], len(there))
        one, other = (here[i], one[better]), (there[j], other[better])  # (place, row) of each pair
        pairs, others = self.pair_at[one], self.pair_at[other]
        self.pair_at[one], self.pair_at[other] = others, pairs
        change = self.lengths[:, others] - self.lengths[:, pairs]
        self.load[:, one[1]] += change
        self.load[:, other[1]] -= change
        touched = np.concatenate([crowded, other[1]])
        return touched[self._overflow(self.load[:, touched]) > 0]

    def row_of(self) -> np.ndarray:
        """Returns the row of each pair, or -1 for what has to be taken out of an overfull row."""
        while len(crowded := np.flatnonzero(self._overflow(self.load))):
            without = self.load[:, crowded][:, None] - self.lengths[:, self.pair_at[:, crowded]]
            place = self._overflow(without).argmin(0)
            self.load[:, crowded] = without[:, place, np.arange(len(crowded))]
            self.pair_at[place, crowded] = -1
        row_of = np.full(self.lengths.shape[1] - 1, -1)
        place, row = np.nonzero(self.pair_at >= 0)
        row_of[self.pair_at[place, row]] = row
        return row_of
