"""Search over a step function: what every search method shares. It knows no model and no text.

    step_fn(tokens [B, W], cache, positions [B], column, ancestors [B, W, L], encoded)
        -> (logits [B, W, V], cache)

returns the scores of the token after `tokens`, which stand at `positions` of their sentences;
`encoded` is what the model needs of the sources, a pytree whose arrays have leading axis B. The
cache is the model's: its arrays have leading axis B, and a step writes one of its L columns in all
sentences. The columns are a ring: a sentence may begin in any of them, and after the last comes the
first. Every array of a state that has an axis of length L is ordered by column.

What beam w writes into a column stays there. When hypotheses change beams, only the table of their
ancestors is reordered, so no step copies a cache: ancestors[b, w, c] is the beam that wrote column
c of hypothesis w, -1 if none has. An example with W = 2 beams and L = 3 columns, of a sentence that
begins in column 0, the table as `step_fn` gets it:

    position 0: BOS stands in beam 0.                            [0 . .]
                It is continued by "a" and by "b".               [1 . .]
    position 1: "a" is in beam 0, "b" in beam 1. Both            [0 0 .]
                were written after position 0 of beam 0.         [0 1 .]
    position 2: "b c" and "b d" were the best: both read         [0 1 0]
                position 1 from beam 1, where "b" was written.   [0 1 1]

A hypothesis ends with EOS, which counts towards its length. At the last position that a sentence
may use, only EOS is allowed, so every hypothesis ends.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array | np.ndarray
Cache = Any  # a pytree of arrays that belongs to the model
State = Any  # of a search method: a NamedTuple of arrays with leading axis B, as `tokens` [B, W]
StepFn = Callable[..., tuple[jax.Array, Cache]]

FREE = -1  # in `Limits.forced`: the search chooses the token


class Limits(NamedTuple):
    """How long the output of each sentence may be, and which of its tokens are given."""

    max_lengths: Array  # [B], largest number of tokens, EOS included; 0: the row has no sentence
    forced: Array  # [B, T], the token that a position must hold, or FREE


class Hypotheses(NamedTuple):
    """The results of a search, best first. A score of -inf marks an entry that was not filled."""

    ids: jax.Array  # [B, W, L], zeros after EOS
    log_probs: jax.Array  # [B, W], sum over the tokens, EOS included
    scores: jax.Array  # [B, W], log_probs / length penalty


@dataclass(frozen=True)
class HypothesisRules:
    """What a hypothesis may be, and how hypotheses of different lengths compare.

    penalty_kind, alpha: as in `length_penalty`. num_unscored: tokens at the beginning of every
    hypothesis that are given: they count in its length, and not in its log-probability.
    """

    bos: int
    eos: int
    penalty_kind: str
    alpha: float
    min_length: int = 0  # tokens, EOS included, before which no hypothesis may end
    num_unscored: int = 0

    def penalty(self, length: Array | float) -> Array | float:
        """Returns the divisor of the log-probability of a hypothesis of `length` tokens."""
        return length_penalty(length, self.penalty_kind, self.alpha)

    def forced_tokens(self, positions: jax.Array, limits: Limits) -> jax.Array:
        """Returns the token [B] that must stand at `positions` [B], or FREE."""
        forced = jnp.take_along_axis(limits.forced, positions[:, None], axis=1, mode="clip")[:, 0]
        is_last = positions + 1 >= limits.max_lengths
        return jnp.where(forced == FREE, jnp.where(is_last, self.eos, FREE), forced)

    def mask_early_end(self, logits: jax.Array, positions: jax.Array) -> jax.Array:
        """Returns logits [B, W, V] with -inf for an EOS that would come before `min_length`."""
        if not self.min_length:
            return logits
        is_early = (positions + 1 < self.min_length)[:, None, None]
        return jnp.where(is_early & (jnp.arange(logits.shape[-1]) == self.eos), -jnp.inf, logits)


def length_penalty(length: Array | float, kind: str, alpha: float) -> Array | float:
    """Returns the penalty of a length n (tokens, EOS included).

    "gnmt" is ((5+n)/6)^α (Wu et al. 2016, equation 14; the paper's); "power" is n^α (fairseq,
    OpenNMT).
    """
    if kind == "power":
        return jnp.asarray(length, jnp.float32) ** alpha
    return ((5.0 + length) / 6.0) ** alpha
