"""Turns sentences and prefixes into the arrays that the programs of a search take."""

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import NamedTuple

import jax
import numpy as np

from transformer.data.rows.bucketing import fill_inputs
from transformer.data.rows.ragged import Ragged
from transformer.search.decoding import FREE, Limits
from transformer.search.options import SearchOptions


class SearchInputs(NamedTuple):
    """What the programs of a search take of B sentences."""

    ids: np.ndarray  # [B, S]
    lengths: np.ndarray  # [B], 0 in a row without a sentence
    limits: Limits
    rngs: np.ndarray  # [B, 2]


def pair_with_prefixes(
    sentences: Iterable[str], prefixes: Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Yields (sentence, prefix) pairs; without `prefixes` all of them are empty.

    Raises ValueError when one of the two ends before the other.
    """
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


def make_inputs(
    source: Ragged, forced: Ragged, rows: np.ndarray, bucket: int, options: SearchOptions
) -> SearchInputs:
    """Returns the inputs of the sentences at `rows` [B], -1 for none, padded to `bucket`.

    forced: the prefixes of the translations. A longer sentence is cut.
    """
    inputs, lengths, _ = fill_inputs(source, rows, bucket)
    extra = options.max_extra_length
    max_lengths = np.where(lengths > 0, lengths + extra, 0).astype(np.int32)
    limits = Limits(max_lengths, forced_prefix_ids(forced, rows, bucket + extra))
    rngs = make_rngs(options.seed, inputs) if options.sample else empty_rngs(len(inputs))
    return SearchInputs(inputs, lengths, limits, rngs)


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


def empty_rngs(num_rows: int) -> np.ndarray:
    """Returns zeros [R, 2] for a search that draws nothing: real keys wait for the device."""
    return np.zeros((num_rows, 2), np.uint32)


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
