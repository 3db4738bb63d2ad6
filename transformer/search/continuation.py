"""The compiled programs that continue texts: all from their first position, some at a time."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from transformer.search.decoding import Array, Cache, Limits, advance
from transformer.search.programs import Params, SearchModel, make_step_fn
from transformer.search.sampling import SampleState, Sampling

SHORTEST_CACHE = 16  # positions; others are twice as long, four times, …, up to the window


def cache_length(num_positions: int, window: int) -> int:
    """Returns the length of the cache for so many positions.

    >>> [cache_length(count, 100) for count in (5, 17, 65)]
    [16, 32, 100]
    """
    length = SHORTEST_CACHE
    while length < num_positions:
        length *= 2
    return min(length, window)


def num_given(length: int, num_left: int, window: int) -> int:
    """Returns how many tokens at the end of a text are given to a model to add `num_left` more.

    All of them if the new ones fit behind them, else at most half a window: of 5 tokens with a
    window of 8, all to add 3, and the last 4 to add 6.

    >>> num_given(5, 3, 8), num_given(5, 6, 8)
    (5, 4)
    """
    return length if length + num_left <= window else min(length, window // 2)


def up_to(ends: Sequence[int], ids: np.ndarray) -> np.ndarray:
    """Returns the ids before the first of `ends`, or all."""
    ends_at = np.flatnonzero(np.isin(ids, ends))
    return ids[: ends_at[0]] if len(ends_at) else ids


class ContinuationPrograms:
    """The compiled beginning of a search without a source, and that of some of its positions.

    begin(rngs, starts, length) -> (state, cache): hypotheses behind the tokens `starts` [B].
    advance(params, limits, state, cache, start, stop) -> (state, cache, whether all are finished).
    """

    def __init__(self, model: SearchModel, method: Sampling) -> None:
        def begin(rngs: Array, starts: Array, length: int) -> tuple[SampleState, Cache]:
            cache = model.apply({}, len(rngs), method.width, length, method="init_cache")
            state = method.start(rngs, length)
            return state._replace(tokens=jnp.asarray(starts)[:, None]), cache

        def run(
            params: Params, limits: Limits, state: SampleState, cache: Cache, *ends: jax.Array
        ) -> tuple[SampleState, Cache, jax.Array]:
            step_fn = make_step_fn(model, params, ())
            state, cache = advance(method, step_fn, limits, state, cache, *ends)
            return state, cache, method.is_finished(limits, state).all()

        self.begin = jax.jit(begin, static_argnums=2)
        self.advance = jax.jit(run, donate_argnums=3)  # the cache is updated in place
