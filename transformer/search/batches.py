"""Sentences of ids -> the batches that the programs of a search take."""

from itertools import zip_longest

import jax
import numpy as np

from transformer.data.bucketing import fill_inputs
from transformer.search.decoding import FREE, Limits


def pair_up(sentences, prefixes):
    """(sentence, prefix) pairs; ValueError where one of them has no partner."""
    if prefixes is None:
        yield from ((sentence, "") for sentence in sentences)
        return
    for number, (sentence, prefix) in enumerate(zip_longest(sentences, prefixes)):
        if sentence is None or prefix is None:
            raise ValueError(
                f"Every sentence needs a prefix (it may be empty); there are {number} pairs, and "
                f"then only {'a prefix' if sentence is None else 'a sentence'}."
            )
        yield sentence, prefix


class SearchBatches:
    """Iterates over (indices [lanes, rows], source length, arrays for `search.begin`).

    plan: as `bucketing.plan_batches` yields it; source, forced: a `Ragged` each, the sentences and
    how their translations begin. `num_truncated` counts the sentences that were cut so far.
    """

    def __init__(self, plan, source, forced, search):
        self._plan, self._source, self._forced, self._search = plan, source, forced, search
        self.num_truncated = 0

    def __iter__(self):
        extra = self._search.max_extra_length
        for indices, bucket in self._plan:
            rows = indices.ravel()
            inputs, lengths, num_cut = fill_inputs(self._source, rows, bucket)
            self.num_truncated += num_cut
            max_lengths = np.where(lengths > 0, lengths + extra, 0)
            limits = Limits(max_lengths, force(self._forced, rows, bucket + extra))
            rngs = make_rngs(self._search.seed, inputs) if self._search.sample else no_rngs(inputs)
            yield indices, bucket, (inputs, lengths, limits, rngs)


def force(prefixes, rows, length):
    """What the places of each output must hold, [rows, T]: pieces of a `Ragged`, then FREE."""
    forced = np.full((len(rows), length), FREE, np.int32)
    for row in np.flatnonzero(rows >= 0):
        ids = prefixes[rows[row]][:-1]  # without EOS
        if len(ids) >= length:
            raise ValueError(
                f"A prefix has {len(ids)} pieces, but a translation of this sentence at most "
                f"{length}; shorten the prefix or raise max_extra_length."
            )
        forced[row, : len(ids)] = ids
    return forced


def no_rngs(inputs):
    """In their place where nothing is drawn: to make them waits for the device."""
    return np.zeros((len(inputs), 2), np.uint32)


def make_rngs(seed, inputs):
    """A PRNG key for each row [rows, 2], of the seed and the sentence alone, not of its place."""
    weights = np.arange(1, 2 * inputs.shape[1], 2, dtype=np.uint32) * np.uint32(2654435761)
    return np.asarray(_keys(seed, (inputs.astype(np.uint32) * weights).sum(1, dtype=np.uint32)))


@jax.jit
def _keys(seed, numbers):
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.PRNGKey(seed), numbers)
