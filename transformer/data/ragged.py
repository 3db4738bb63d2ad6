"""Sentences of ids, millions of them, without a Python object for each."""

from itertools import chain

import numpy as np

CHUNK = 20_000  # sentences tokenised at a time


class Ragged:
    """Sentences of ids in one flat array, each with its start and length there."""

    def __init__(self, flat, starts, lengths):
        self.flat, self.starts, self.lengths = flat, starts, lengths

    @classmethod
    def encode(cls, tokenizer, sentences):
        """Tokenises in chunks, so that few sentences are lists of Python numbers at a time."""
        flat, lengths = [np.zeros(0, np.int32)], []
        for start in range(0, len(sentences), CHUNK):
            ids = tokenizer.encode(sentences[start : start + CHUNK])
            lengths += map(len, ids)
            flat.append(np.fromiter(chain.from_iterable(ids), np.int32))
        lengths = np.asarray(lengths, np.int64)
        return cls(np.concatenate(flat), np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of(cls, ids):
        """One sentence of ids."""
        return cls(np.asarray(ids, np.int32), np.array([0]), np.array([len(ids)]))

    def take(self, indices):
        """The sentences at `indices`, a view of the same array."""
        return Ragged(self.flat, self.starts[indices], self.lengths[indices])

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return self.flat[self.starts[index] : self.starts[index] + self.lengths[index]]
