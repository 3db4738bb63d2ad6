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
    def from_lists(cls, sentences):
        """Lists of ids, one per sentence."""
        lengths = np.array([len(ids) for ids in sentences], np.int64)
        flat = np.fromiter(chain.from_iterable(sentences), np.int32)
        return cls(flat, np.cumsum(lengths) - lengths, lengths)

    def take(self, indices):
        """The sentences at `indices`, a view of the same array."""
        return Ragged(self.flat, self.starts[indices], self.lengths[indices])

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        return self.flat[self.starts[index] : self.starts[index] + self.lengths[index]]

    def split_longer(self, length):
        """The same ids as sentences of at most `length`: a longer one is cut into several."""
        counts = -(-self.lengths // length)
        nth = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        lengths = np.minimum(np.repeat(self.lengths, counts) - nth * length, length)
        return Ragged(self.flat, np.repeat(self.starts, counts) + nth * length, lengths)
