"""Sentences of ids, millions of them, without a Python object per sentence."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Self

import numpy as np

from transformer.console import counted
from transformer.data.tokenizers.sentencepiece import Tokenizer

CHUNK = 20_000  # sentences tokenised at a time


def count_up(counts: np.ndarray) -> np.ndarray:
    """Returns 0 1 2 … for each of `counts`, one after another; of 3 and 2: 0 1 2 0 1."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


class Ragged:
    """Sentences of ids in one flat array, and where in it each of them begins.

    The sentences [7, 8, 2], [2] and [9, 2] are

        flat     7 8 2 2 9 2
        starts   0 3 4
        lengths  3 1 2

    Ids and lengths may be of any type of integers. Sentences need not stand in order, nor be all.
    """

    def __init__(self, flat: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
        self.flat, self.starts, self.lengths = flat, starts, lengths

    @classmethod
    def encode(cls, tokenizer: Tokenizer, sentences: Sequence[str]) -> Self:
        """Tokenises in chunks, so that only one chunk at a time is lists of Python numbers."""
        starts = range(0, max(1, len(sentences)), CHUNK)
        each = counted(starts, "tokenising", len(sentences), CHUNK) if starts[1:] else starts
        chunks = [tokenizer.encode_flat(sentences[start : start + CHUNK]) for start in each]
        flat, lengths = map(np.concatenate, zip(*chunks, strict=True))
        return cls.from_lengths(flat, lengths)

    @classmethod
    def from_lists(cls, sentences: Iterable[Iterable[int]]) -> Self:
        """Takes one list of ids per sentence."""
        lists = [list(ids) for ids in sentences]
        flat = np.fromiter(chain.from_iterable(lists), np.int32)
        return cls.from_lengths(flat, [*map(len, lists)])

    @classmethod
    def from_lengths(cls, flat: np.ndarray, lengths: np.ndarray | list[int]) -> Self:
        """Takes the ids of all sentences one after another, and the number of each one's."""
        array = np.asarray(lengths, np.int64)
        return cls(flat, np.cumsum(array) - array, array)

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns (the ids of the sentences at `indices`, one after another; their lengths, int64).

        Of the sentences above, gather([2, 0]) is ([9, 2, 7, 8, 2], [2, 3]).
        """
        return self.flat[self.places(indices)], self.lengths[indices].astype(np.int64)

    def places(self, indices: np.ndarray) -> np.ndarray:
        """Returns where in `flat` the ids of the sentences are; of [2, 0] above: 4 5 0 1 2."""
        lengths = self.lengths[indices].astype(np.int64)
        return np.repeat(self.starts[indices], lengths) + count_up(lengths)

    def take(self, indices: np.ndarray) -> "Ragged":
        """Returns the sentences at `indices` with a `flat` of their own, which holds no others."""
        return Ragged.from_lengths(*self.gather(indices))

    def split_longer(self, length: int) -> "Ragged":
        """Returns sentences of at most `length`: one of 8 ids becomes 3, 3 and 2 for length 3."""
        counts = -(-self.lengths // length)
        nth = count_up(counts)
        lengths = np.minimum(np.repeat(self.lengths, counts) - nth * length, length)
        return Ragged(self.flat, np.repeat(self.starts, counts) + nth * length, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.gather(np.array([index]))[0]
