"""Which pairs an epoch shows: corpora one after another, each as often as its weight says.

All of it is arithmetic on ranges, so that a corpus of any size costs nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from transformer.data.permutation import permute

TURNS, ORDER = 2, 3  # streams of random numbers apart from those of packing and masking


class CorpusPart(NamedTuple):
    """Pairs that lie one after another and have the same weight."""

    num_pairs: int
    weight: float = 1.0  # how often an epoch shows each pair, on average


def with_temperature(parts: Sequence[CorpusPart], temperature: float) -> list[CorpusPart]:
    """Returns the parts with weights for sampling by size^(1/T), T being the temperature.

    A part's share of an epoch is in proportion to weight · num_pairs^(1/T), and the epoch holds as
    many pairs as without temperature. T = 1 changes nothing; the higher T is, the more alike the
    shares of corpora with equal weights. Arivazhagan et al. (2019, "Massively Multilingual Neural
    Machine Translation in the Wild", section 4.2) sample so, with T = 5; the exponent α of mBART
    (Liu et al., 2020) is 1/T.

    Two corpora of 900 and 100 pairs, T = 2: shares as 30 to 10, so that of 1,000 pairs in an epoch
    750 and 250 are theirs, and the weights 750/900 = 0.83 and 250/100 = 2.5.
    """
    sizes = np.array([part.num_pairs for part in parts], float)
    weights = np.array([part.weight for part in parts], float)
    shares = weights * sizes ** (1 / temperature)
    shown = (weights * sizes).sum() * shares / shares.sum()  # pairs in an epoch
    new_weights = np.divide(shown, sizes, out=weights.copy(), where=sizes > 0)
    return [
        CorpusPart(part.num_pairs, float(weight))
        for part, weight in zip(parts, new_weights, strict=True)
    ]


class EpochPairs:
    """The pairs of every epoch, whose number is always the same: `len`.

    A corpus of n pairs and weight w fills round(w·n) places of an epoch, at least one. Every n of
    them hold each pair once. What is left goes to pairs in a random order of the corpus, each
    epoch to those that come next, so that after any number of epochs each pair of a corpus has
    been shown as often as any other, or once more.

    Corpora of 4 pairs (0 to 3) with weight 1.5 and of 2 pairs (4, 5) with weight 1; the random
    order of the first one is 2 0 3 1:

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
        counts = zip(self.places, self.parts, strict=True)
        return sum(places % part.num_pairs for places, part in counts if places)

    def at(self, epoch: int, places: np.ndarray) -> np.ndarray:
        """Returns the indices of the pairs at some places of an epoch."""
        pairs = np.empty(len(places), np.int64)
        first_place = first_pair = 0
        for number, (part, count) in enumerate(zip(self.parts, self.places, strict=True)):
            here = np.flatnonzero((places >= first_place) & (places < first_place + count))
            if len(here):
                found = self._at_places_of(number, epoch, places[here] - first_place)
                pairs[here] = first_pair + found
            first_place, first_pair = first_place + count, first_pair + part.num_pairs
        return pairs

    def _at_places_of(self, number: int, epoch: int, places: np.ndarray) -> np.ndarray:
        """Returns the pairs at some places of one corpus, both counted from its first."""
        num_pairs = self.parts[number].num_pairs
        num_extra = self.places[number] % num_pairs
        first_extra = self.places[number] - num_extra
        is_extra = places >= first_extra
        turns = (epoch * num_extra + places[is_extra] - first_extra) % num_pairs
        pairs = places % num_pairs
        pairs[is_extra] = permute(turns, num_pairs, (self.seed, number, TURNS))
        return pairs

    def shuffled(self, epoch: int, start: int, stop: int) -> np.ndarray:
        """Returns the pairs from `start` to `stop` in a random order of the epoch's places."""
        places = np.arange(start, stop)
        return self.at(epoch, permute(places, len(self), (self.seed, epoch, ORDER)))

    def mean(self, lengths: np.ndarray) -> float:
        """Returns the mean of `lengths`, one for each pair, over the pairs of all epochs.

        Sums are of integers, so that every machine finds the same number to the last bit.
        """
        total, first = 0.0, 0
        for part, places in zip(self.parts, self.places, strict=True):
            if places:
                sum_of_part = int(lengths[first : first + part.num_pairs].sum(dtype=np.int64))
                total += places * sum_of_part / part.num_pairs
            first += part.num_pairs
        return total / len(self)
