"""Turns sentences and prefixes into the arrays that the programs of a search take."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import jax
import numpy as np

from transformer.data.rows.bucketing import fill_inputs
from transformer.data.rows.ragged import Ragged
from transformer.search.decoding import FREE, Limits
from transformer.search.options import SearchOptions


def pair_with_prefixes(
    sentences: Iterable[str], prefixes: Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Yields (sentence, prefix) pairs; without `prefixes` all of them are empty.

    Raises ValueError when one of the two ends before the other.
    """
    missing = "" if prefixes is None else None
    pairs = zip_longest(sentences, prefixes or (), fillvalue=missing)
    for number, (sentence, prefix) in enumerate(pairs):
        if sentence is None or prefix is None:
            raise ValueError(
                f"Every sentence needs a prefix (it may be empty); there are only {number} pairs."
            )
        yield sentence, prefix


def make_inputs(
    source: Ragged, forced: Ragged, rows: np.ndarray, bucket: int, options: SearchOptions
) -> tuple[np.ndarray, np.ndarray, Limits, np.ndarray]:
    """Returns (ids [B, S], lengths [B], limits, rngs [B, 2]) of the sentences at `rows` [B].

    A row of -1 has no sentence, and length 0. forced: the prefixes of the translations. S is the
    `bucket`; a longer sentence is cut.
    """
    inputs, lengths, _ = fill_inputs(source, rows, bucket)
    extra = options.max_extra_length
    max_lengths = np.where(lengths > 0, lengths + extra, 0).astype(np.int32)
    limits = Limits(max_lengths, forced_prefix_ids(forced, rows, bucket + extra))
    # Where nothing is drawn, no keys are made: real ones wait for the device.
    no_rngs = np.zeros((len(inputs), 2), np.uint32)
    return inputs, lengths, limits, make_rngs(options.seed, inputs) if options.sample else no_rngs


def forced_prefix_ids(prefixes: Ragged, indices: np.ndarray, length: int) -> np.ndarray:
    """Returns `Limits.forced` [R, T] for the prefixes at `indices` [R]: their ids, then FREE.

    T is `length`; an index of -1 is a row without a sentence. Raises ValueError for a prefix that
    fills all T positions.
    """
    forced = np.full((len(indices), length), FREE, np.int32)
    for row in np.flatnonzero(indices >= 0):
        ids = prefixes[indices[row]][:-1]  # without EOS
        if len(ids) >= length:
            raise ValueError(
                f"A prefix has {len(ids)} pieces, but a translation of this sentence at most "
                f"{length}; shorten the prefix or raise max_extra_length."
            )
        forced[row, : len(ids)] = ids
    return forced


def make_rngs(seed: int, inputs: np.ndarray) -> np.ndarray:
    """Returns a PRNG key for each row of inputs [R, S], as [R, 2].

    A key depends on the seed and the ids of the sentence, not on its row or its padding. Raises
    ValueError for a seed that is no int32.
    """
    if not -(2**31) <= seed < 2**31:
        raise ValueError(f"seed must be from {-(2**31):,} to {2**31 - 1:,}, not {seed}.")
    # Odd multiples of Knuth's constant for hashing; PAD is 0 and adds nothing.
    weights = np.arange(1, 2 * inputs.shape[1], 2, dtype=np.uint32) * np.uint32(2654435761)
    hashes = (inputs.astype(np.uint32) * weights).sum(1, dtype=np.uint32)
    return np.asarray(_fold_in(seed, hashes))


@jax.jit
def _fold_in(seed: int | jax.Array, numbers: jax.Array | np.ndarray) -> jax.Array:
    return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.PRNGKey(seed), numbers)
