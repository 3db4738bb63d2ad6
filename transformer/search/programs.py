"""The search of a translation: its options, and its programs for the model.

A batch of sentences is encoded (`begin`), and grows until some of them are done (`advance`), which
leave it to the others, or to those of another batch (`collect`); its cache grows with it, so that
attention and memory are of the length that is needed (`lengthen`). `conveyor` runs these programs.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.decoding import Limits, advance
from transformer.search.sampling import Sampling

FIRST_CACHE = 16  # places


class SearchSlots(NamedTuple):
    """Sentences on their way; every leaf leads with [B]."""

    limits: Limits
    encoded: Any  # the source, as `Transformer.encode_for_search` gives it
    state: Any  # of the search method


def cache_lengths(max_length):
    """The lengths that a cache goes through: doubled when they are used up, to `max_length`."""
    lengths = [FIRST_CACHE]
    while lengths[-1] * 1.25 < max_length:
        lengths.append(2 * lengths[-1])
    return [*lengths[:-1], max_length]


def begin(model, method, params, inputs, source_lengths, limits, rngs):
    """Encodes inputs [B, S] of `source_lengths` [B] and starts the search with a short cache."""
    variables = {"params": params}
    length = cache_lengths(limits.forced.shape[1])[0]
    encoded = model.apply(variables, inputs, source_lengths, method="encode_for_search")
    cache = model.apply(variables, len(inputs), method.width, length, method="init_cache")
    start = {"rngs": rngs} if isinstance(method, Sampling) else {}
    return SearchSlots(limits, encoded, method.start(limits, cache, **start))


def advance_slots(model, method, params, fixed, state, start, stop, few):
    """(state, place [1], which are done [B], their results): grown from place `start` [1].

    They grow to `stop`, or to where only `few` [1] are not done.
    """
    limits, encoded = fixed

    def step_fn(tokens, cache, position, ancestors):
        inputs = tokens, cache, position, ancestors, encoded
        return model.apply({"params": params}, *inputs, method="decode_step")

    state, place = advance(method, step_fn, limits, state, start[0], stop, few[0])
    return state, place[None], method.is_finished(limits, state), method.results(state)


def lengthen(model, method, state):
    """The state with a cache of the next length."""
    inputs = state.cache, method.width, cache_lengths(state.ids.shape[2] - 1)
    return state._replace(cache=model.apply({}, *inputs, method="lengthen_cache"))


def collect(riders, others, places):
    """The sentences at `places` of two batches, one after the other; beyond both: none."""
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), riders, others)
    kept = jax.tree.map(lambda leaf: jnp.take(leaf, places, axis=0, mode="clip"), both)
    is_there = places < len(both.limits.max_lengths)
    max_lengths = jnp.where(is_there, kept.limits.max_lengths, 0)
    return kept._replace(limits=kept.limits._replace(max_lengths=max_lengths))
