"""The compiled programs of a search, and the functions that they are compiled from.

A batch of sentences is encoded (`begin_slots`), its hypotheses grow until some sentences have
finished (`advance_slots`), the others are gathered into fewer slots or together with those of
another batch (`gather_slots`), and the cache is made longer when it is full (`lengthen_cache`), so
that attention and memory are no longer than needed. `continuous_batching` runs these programs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from transformer.data.bucketing import batch_sizes, bucket_lengths
from transformer.search.beam_search import BeamState
from transformer.search.decoding import (
    Array,
    Cache,
    Hypotheses,
    Limits,
    SearchMethod,
    StepFn,
    advance,
)
from transformer.search.replicas import REPLICA
from transformer.search.sampling import SampleState

FIRST_CACHE_LENGTH = 16  # positions

Params = Any  # a pytree of arrays: the parameters of the model
Method = SearchMethod[Any]  # a BeamSearch or a Sampling
SearchState = BeamState | SampleState


class SearchModel(Protocol):
    """A Flax module with what a search applies by name, as `Transformer` has it.

    The methods are `encode_for_search`, `init_cache`, `lengthen_cache` and `decode_step`.
    """

    def apply(self, variables: dict[str, Params], *args: Any, method: str) -> Any:
        """Calls the method of that name with the given variables."""
        ...


class SearchSlots(NamedTuple):
    """State of B sentences in the middle of a search; every array has leading axis B."""

    limits: Limits
    encoded: Any  # the source, as `encode_for_search` returns it
    state: SearchState


class Advanced(NamedTuple):
    """What `advance_slots` returns."""

    state: SearchState
    position: jax.Array  # [1], the position reached; [replicas] for the whole program
    is_finished: jax.Array  # [B]
    results: Hypotheses


def cache_lengths(max_length: int) -> list[int]:
    """Returns the lengths that a cache goes through: doubled when it is full, to `max_length`.

    The last step may be up to 2.5-fold: a cache for some positions more is not worth a program.

    >>> cache_lengths(66), cache_lengths(82)
    ([16, 32, 66], [16, 32, 64, 82])
    """
    lengths = [FIRST_CACHE_LENGTH]
    while lengths[-1] * 1.25 < max_length:
        lengths.append(2 * lengths[-1])
    return [*lengths[:-1], max_length]


def begin_slots(
    model: SearchModel,
    method: Method,
    params: Params,
    inputs: Array,  # [B, S]
    source_lengths: Array,  # [B]
    limits: Limits,
    rngs: Array,  # [B, 2]
) -> SearchSlots:
    """Encodes the sentences and starts their search with a cache of the first length."""
    variables = {"params": params}
    length = cache_lengths(limits.forced.shape[1])[0]
    encoded = model.apply(variables, inputs, source_lengths, method="encode_for_search")
    cache = model.apply(variables, len(inputs), method.width, length, method="init_cache")
    return SearchSlots(limits, encoded, method.start(limits, cache, rngs))


def make_step_fn(model: SearchModel, params: Params, encoded: Any) -> StepFn:
    """Returns the step of `decoding` by the model; encoded: as `encode_for_search` returns it."""

    def step_fn(
        tokens: jax.Array, cache: Cache, position: jax.Array, ancestors: jax.Array
    ) -> tuple[jax.Array, Cache]:
        inputs = tokens, cache, position, ancestors, encoded
        return model.apply({"params": params}, *inputs, method="decode_step")

    return step_fn


def advance_slots(
    model: SearchModel,
    method: Method,
    params: Params,
    fixed: tuple[Limits, Any],  # the limits and the encoded source of the slots
    state: SearchState,
    start: jax.Array,  # [1]
    stop: jax.Array,  # []
    max_unfinished: jax.Array,  # [1]
) -> Advanced:
    """Runs `decoding.advance` with the model from position `start` to at most `stop`."""
    limits, encoded = fixed
    step_fn = make_step_fn(model, params, encoded)
    state, position = advance(method, step_fn, limits, state, start[0], stop, max_unfinished[0])
    finished = method.is_finished(limits, state)
    return Advanced(state, position[None], finished, method.results(state))


def lengthen_cache(model: SearchModel, method: Method, state: SearchState) -> SearchState:
    """Returns the state with a cache of the next of `cache_lengths`."""
    inputs = state.cache, method.width, cache_lengths(state.ids.shape[2] - 1)
    return state._replace(cache=model.apply({}, *inputs, method="lengthen_cache"))


def gather_slots(slots: SearchSlots, others: SearchSlots, rows: jax.Array) -> SearchSlots:
    """Returns the sentences in `rows` of two batches of B slots each, numbered through.

    Row B is the first row of the second batch; from 2B on a row has no sentence. With B = 4,
    rows [2, 5, 8] are row 2 of the first batch, row 1 of the second, and an empty slot.
    """
    both = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), slots, others)
    taken = jax.tree.map(lambda leaf: jnp.take(leaf, rows, axis=0, mode="clip"), both)
    is_active = rows < len(both.limits.max_lengths)
    max_lengths = jnp.where(is_active, taken.limits.max_lengths, 0)
    return taken._replace(limits=taken.limits._replace(max_lengths=max_lengths))


class SearchPrograms:
    """The compiled programs of one search. Each device is a replica with rows of its own.

    Arrays of a batch have leading axis [replicas · rows]; within a program no replica waits for
    another.
    """

    def __init__(self, model: SearchModel, method: Method, replicas: Mesh) -> None:
        self.replicas = replicas
        self.num_compiled = 0
        split, replicated = P(REPLICA), P()
        is_cpu = replicas.devices.flat[0].platform == "cpu"
        self.begin = self._compile(partial(begin_slots, model, method), (replicated, *[split] * 4))
        self.advance = self._compile(
            partial(advance_slots, model, method),
            (replicated, split, split, split, replicated, split),
            donate=() if is_cpu else (2,),  # on a CPU donation takes half as long again
        )
        self.lengthen = self._compile(partial(lengthen_cache, model, method), (split,))
        self.gather = self._compile(gather_slots, (split, split, split))

    def _compile(
        self, function: Callable[..., Any], in_specs: tuple[P, ...], donate: tuple[int, ...] = ()
    ) -> jax.stages.Wrapped:
        """Maps `function` over the replicas; `num_compiled` counts how often it is traced."""

        def traced(*args: Any) -> Any:
            self.num_compiled += 1
            return function(*args)

        traced.__name__ = getattr(function, "func", function).__name__  # for profiles
        specs = dict(mesh=self.replicas, in_specs=in_specs, out_specs=P(REPLICA), check_vma=False)
        return jax.jit(jax.shard_map(traced, **specs), donate_argnums=donate)


def max_num_programs(batch_size: int, largest_bucket: int, max_extra_length: int) -> int:
    """Returns how many programs one search compiles at most.

    For each source length and cache length there is one program to advance and one to begin or to
    lengthen for each batch size, and one to gather for each pair of batch sizes. With one source
    length, cache lengths of 16, 32 and 66 and batch sizes of 1, 8, 24, 48 and 64: 3 · (2·5 + 5²).

    >>> max_num_programs(batch_size=64, largest_bucket=16, max_extra_length=50)
    105
    """
    total = 0
    for bucket in bucket_lengths(largest_bucket):
        num_sizes = len(batch_sizes(batch_size, bucket))
        num_caches = len(cache_lengths(bucket + max_extra_length))
        total += num_caches * (2 * num_sizes + num_sizes**2)
    return total
