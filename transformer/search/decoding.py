"""Search over a step function: what every search method shares. It knows no model and no text.

    step_fn(tokens [B, W], cache, position, ancestors [B, W, T]) -> (logits [B, W, V], cache)

returns the scores of the token after `tokens`, which stand at `position`. The cache is the model's:
its arrays have leading axis B, and what beam w writes at a position stays there. When hypotheses
change beams, only the table of their ancestors is reordered, so no step copies a cache:
ancestors[b, w, t] is the beam that wrote position t of hypothesis w, -1 if none has yet.

An example with W = 2 beams and T = 3 positions, the table as `step_fn` gets it:

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
from typing import Any, NamedTuple, Protocol, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Array = jax.Array | np.ndarray
Cache = Any  # a pytree of arrays that belongs to the model
StepFn = Callable[[jax.Array, Cache, jax.Array, jax.Array], tuple[jax.Array, Cache]]
State = TypeVar("State")  # a search method's: a NamedTuple of arrays with leading axis B

FREE = -1  # in `Limits.forced`: the search chooses the token


class Limits(NamedTuple):
    """How long the output of each sentence may be, and which of its tokens are given."""

    max_lengths: Array  # [B], largest number of tokens, EOS included; 0: the row has no sentence
    forced: Array  # [B, T], the token that a position must hold, or FREE


class Hypotheses(NamedTuple):
    """The results of a search, best first. A score of -inf marks an entry that was not filled."""

    ids: jax.Array  # [B, W, T], zeros after EOS
    log_probs: jax.Array  # [B, W], sum over the tokens, EOS included
    scores: jax.Array  # [B, W], log_probs / length penalty


class SearchMethod(Protocol[State]):
    """A way of searching: `beam_search.BeamSearch` or `sampling.Sampling`."""

    @property
    def width(self) -> int:
        """The number of hypotheses of a sentence, W."""
        ...

    def start(self, limits: Limits, cache: Cache, rngs: Array | None = None) -> State:
        """Returns the state before the first step; rngs [B, 2]: a PRNG key for each sentence."""
        ...

    def is_finished(self, limits: Limits, state: State) -> jax.Array:
        """Returns which sentences [B] have results that no further step changes."""
        ...

    def extend(self, step_fn: StepFn, limits: Limits, state: State, position: jax.Array) -> State:
        """Returns the state with every live hypothesis extended by one token."""
        ...

    def results(self, state: State) -> Hypotheses:
        """Returns the hypotheses found so far."""
        ...


@dataclass(frozen=True)
class HypothesisRules:
    """What a hypothesis may be, and how hypotheses of different lengths compare.

    length_penalty, alpha: as in `make_length_penalty`.
    """

    bos: int
    eos: int
    length_penalty: str
    alpha: float
    min_length: int = 0  # tokens, EOS included, before which no hypothesis may end

    def penalty(self, length: Array | float) -> Array | float:
        """Returns the divisor of the log-probability of a hypothesis of `length` tokens."""
        return make_length_penalty(self.length_penalty, self.alpha)(length)

    def forced_tokens(self, position: jax.Array, limits: Limits) -> jax.Array:
        """Returns the token [B] that must stand at `position`, or FREE."""
        forced = jax.lax.dynamic_index_in_dim(limits.forced, position, axis=1, keepdims=False)
        is_last = position + 1 >= limits.max_lengths
        return jnp.where(forced == FREE, jnp.where(is_last, self.eos, FREE), forced)

    def mask_early_end(self, logits: jax.Array, position: jax.Array) -> jax.Array:
        """Returns logits [B, W, V] with -inf for an EOS that would come before `min_length`."""
        if not self.min_length:
            return logits
        is_early = (position + 1 < self.min_length) & (jnp.arange(logits.shape[-1]) == self.eos)
        return jnp.where(is_early, -jnp.inf, logits)


def make_length_penalty(kind: str, alpha: float) -> Callable[[Array | float], Array | float]:
    """Returns a function from a length n (tokens, EOS included) to its length penalty.

    "gnmt" is ((5+n)/6)^α (Wu et al. 2016, equation 14; the paper's); "power" is n^α (fairseq,
    OpenNMT). Raises ValueError for any other kind.
    """
    if kind == "gnmt":
        return lambda n: ((5.0 + n) / 6.0) ** alpha
    if kind == "power":
        return lambda n: jnp.asarray(n, jnp.float32) ** alpha
    raise ValueError(f"length_penalty must be gnmt or power, not {kind}.")


def advance(
    method: SearchMethod[State],
    step_fn: StepFn,
    limits: Limits,
    state: State,
    start: int | jax.Array,
    stop: int | jax.Array,
    max_unfinished: int | jax.Array = 0,
) -> tuple[State, jax.Array]:
    """Runs the search from position `start` to `stop`; returns the state and the position reached.

    It ends earlier as soon as at most `max_unfinished` sentences are unfinished.
    """

    def must_continue(carry: tuple[jax.Array, State]) -> jax.Array:
        position, state = carry
        num_unfinished = (~method.is_finished(limits, state)).sum()
        return (position < stop) & (num_unfinished > max_unfinished)

    def extend(carry: tuple[jax.Array, State]) -> tuple[jax.Array, State]:
        position, state = carry
        return position + 1, method.extend(step_fn, limits, state, position)

    position, state = jax.lax.while_loop(must_continue, extend, (jnp.int32(start), state))
    return state, position


def search_to_end(
    method: SearchMethod[State],
    step_fn: StepFn,
    limits: Limits,
    cache: Cache,
    rngs: Array | None = None,
) -> Hypotheses:
    """Searches all sentences from the first position to their end in one loop."""
    state = method.start(limits, cache, rngs)
    state, _ = advance(method, step_fn, limits, state, start=0, stop=limits.forced.shape[1])
    return method.results(state)
