"""Search over a step function: what all ways of searching share. Knows no model, no text.

    step_fn(tokens [B, W], cache, position, ancestors [B, W, T]) -> (logits [B, W, V], cache)

gives the scores of the piece after `tokens`, which stand at `position`. The cache is the model's:
its leaves lead with [B], and what beam w writes at a place stays there. When hypotheses change
beams, only the table of their ancestors is reordered: ancestors[b, w, t] is the beam that wrote
place t of hypothesis w, -1 where nobody has yet. So no step copies a cache.

A hypothesis ends with EOS, which its length n counts; at the last place that a sentence may use,
only EOS is allowed, so every hypothesis has an end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

FREE = -1  # in `Limits.forced`: the search chooses


class Limits(NamedTuple):
    """What each sentence may use and must hold of the places 0 … T-1."""

    max_lengths: jax.Array  # [B], pieces that it may use, EOS included; 0: there is no sentence
    forced: jax.Array  # [B, T], the piece that a place must hold, or FREE


class Hypotheses(NamedTuple):
    """The results of a search, best first. A score of -inf marks a place that was not filled."""

    ids: jax.Array  # [B, W, T], after EOS zeros
    log_probs: jax.Array  # [B, W], sum over the pieces, EOS included
    scores: jax.Array  # [B, W], log_probs / length penalty


@dataclass(frozen=True)
class HypothesisRules:
    """What a hypothesis may be, and how hypotheses of different lengths compare."""

    bos: int
    eos: int
    length_penalty: str = "gnmt"
    alpha: float = 0.6
    min_length: int = 0  # pieces before which no hypothesis may end, EOS included

    def penalty(self, length):
        """The divisor of the log-probability of a hypothesis of `length` pieces."""
        return make_length_penalty(self.length_penalty, self.alpha)(length)

    def required(self, position, limits):
        """The piece that must stand at `position`, [B], or FREE."""
        forced = jax.lax.dynamic_index_in_dim(limits.forced, position, axis=1, keepdims=False)
        is_last = position + 1 >= limits.max_lengths
        return jnp.where(forced == FREE, jnp.where(is_last, self.eos, FREE), forced)

    def without_early_end(self, logits, position):
        """The logits [B, W, V]; -inf for an end that would come too soon."""
        if not self.min_length:
            return logits
        too_soon = (position + 1 < self.min_length) & (jnp.arange(logits.shape[-1]) == self.eos)
        return jnp.where(too_soon, -jnp.inf, logits)


def make_length_penalty(kind, alpha):
    """length (pieces with EOS) -> divisor of the log-probability.

    "gnmt": ((5+n)/6)^α (Wu et al. 2016, equation 14; the paper's); "power": n^α (fairseq, OpenNMT).
    """
    if kind == "gnmt":
        return lambda n: ((5.0 + n) / 6.0) ** alpha
    if kind == "power":
        return lambda n: jnp.asarray(n, jnp.float32) ** alpha
    raise ValueError(f"The length penalty must be 'gnmt' or 'power', not {kind!r}.")


def advance(method, step_fn, limits, state, start, stop, few=0):
    """(state, place): grown from place `start` to `stop`, or to where only `few` are not done.

    method: a `beam_search.BeamSearch` or a `sampling.Sampling`, which made the state.
    """

    def is_unfinished(carry):
        position, state = carry
        return (position < stop) & ((~method.is_finished(limits, state)).sum() > few)

    def grow(carry):
        position, state = carry
        return position + 1, method.extend(step_fn, limits, state, position)

    place, state = jax.lax.while_loop(is_unfinished, grow, (jnp.int32(start), state))
    return state, place


def search_to_end(method, step_fn, limits, cache, **start):
    """The `Hypotheses` of every sentence, in one go."""
    state = method.start(limits, cache, **start)
    state, _ = advance(method, step_fn, limits, state, 0, limits.forced.shape[1])
    return method.results(state)
