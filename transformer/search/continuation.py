"""The compiled programs that continue texts: all from their first position, some at a time."""

import jax
import jax.numpy as jnp

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


class ContinuationPrograms:
    """The compiled beginning of a search without a source, and that of some of its positions."""

    def __init__(self, model: SearchModel, method: Sampling) -> None:
        self._model, self._method = model, method
        self.begin = jax.jit(self._begin, static_argnums=2)
        self.advance = jax.jit(self._advance)

    def _begin(self, rngs: Array, starts: Array, length: int) -> tuple[SampleState, Cache]:
        """Returns hypotheses that begin with the tokens `starts` [B], and a cache."""
        sizes = len(rngs), self._method.width, length
        cache = self._model.apply({}, *sizes, method="init_cache")
        state = self._method.start(rngs, length)
        return state._replace(tokens=jnp.asarray(starts)[:, None]), cache

    def _advance(
        self,
        params: Params,
        limits: Limits,
        state: SampleState,
        cache: Cache,
        start: jax.Array,
        stop: jax.Array,
    ) -> tuple[SampleState, Cache, jax.Array]:
        """Runs `decoding.advance`; returns also whether every text is finished."""
        step_fn = make_step_fn(self._model, params, ())
        state, cache = advance(self._method, step_fn, limits, state, cache, start, stop)
        return state, cache, self._method.is_finished(limits, state).all()
