"""The compiled programs of a search: one encodes sentences, the other searches them in slots.

Each device searches sentences of its own with a full copy of the parameters.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from transformer.data.rows.bucketing import RETRY_BUCKET, batch_sizes, bucket_lengths
from transformer.search.decoding import Array, Limits, StepFn
from transformer.search.options import SearchOptions
from transformer.search.slots import (
    NONE,
    SearchMethod,
    Sentences,
    Slots,
    advance,
    advance_slots,
    is_free,
    start_slots,
)

REPLICA = "replica"  # the only axis of the mesh
T = TypeVar("T")
Params = Any  # a pytree of arrays: the parameters of the model
SearchModel = Any  # a Flax module with the methods `encode_for_search`, `init_cache`, `decode_step`


def make_step_fn(model: SearchModel, params: Params) -> StepFn:
    """Returns the step of `decoding` by the model."""
    return partial(model.apply, {"params": params}, method="decode_step")


class SearchPrograms:
    """The compiled programs of one search. Each device is a replica with slots of its own.

    Arrays have leading axis [replicas · B]; within a program no replica waits for another.
    `num_compiled` counts those that run the model, and not those that only make empty slots.
    """

    def __init__(self, model: SearchModel, method: SearchMethod, replicas: Mesh) -> None:
        self.replicas = replicas
        self.num_compiled = 0
        split, replicated = P(REPLICA), P()

        def encode(params: Params, inputs: Array, lengths: Array) -> Any:
            return model.apply({"params": params}, inputs, lengths, method="encode_for_search")

        def empty_slots(queue: Sentences, length: int) -> Slots:
            zeros = jnp.zeros(len(queue.numbers), jnp.int32)
            limits = queue.limits._replace(max_lengths=zeros)  # so that they are free
            nobody = queue._replace(numbers=zeros + NONE, limits=limits)
            cache = model.apply({}, len(zeros), method.width, length, method="init_cache")
            slots = start_slots(method, nobody, cache, length)
            return slots._replace(column=zeros[: replicas.size])

        def search(params: Params, slots: Slots, queue: Sentences, max_free: Array) -> Any:
            return advance_slots(method, make_step_fn(model, params), slots, queue, max_free[0])

        # As many slots as the queue has sentences, of `length` columns, made on the devices: the
        # caches of a search are too large to come from the host.
        on_devices = NamedSharding(replicas, split)
        self.empty_slots = jax.jit(empty_slots, static_argnums=1, out_shardings=on_devices)
        self.encode = self._compile(encode, (replicated, split, split))
        specs = (replicated, split, split, split)
        self.advance = self._compile(search, specs, donate=(1,))  # slots are updated in place

    def _compile(
        self, function: Callable[..., Any], in_specs: tuple[P, ...], donate: tuple[int, ...] = ()
    ) -> jax.stages.Wrapped:
        """Maps `function` over the replicas; `num_compiled` counts how often it is traced."""

        def traced(*args: Any) -> Any:
            self.num_compiled += 1
            return function(*args)

        traced.__name__ = function.__name__  # for profiles
        specs = dict(mesh=self.replicas, in_specs=in_specs, out_specs=P(REPLICA), check_vma=False)
        return jax.jit(jax.shard_map(traced, **specs), donate_argnums=donate)


def continuation_programs(
    model: SearchModel, method: SearchMethod
) -> tuple[Callable[..., Slots], Callable[..., tuple[Slots, jax.Array, jax.Array]]]:
    """Returns the compiled beginning of a search without a source, and that of some of its steps.

    begin(limits, rngs, starts) -> slots of hypotheses behind the tokens `starts` [B];
    advance(params, slots, num_steps) -> (slots, ids [B, L] so far, whether all are finished).
    """

    def begin(limits: Limits, rngs: Array, starts: Array) -> Slots:
        num_rows, length = limits.forced.shape
        cache = model.apply({}, num_rows, method.width, length, method="init_cache")
        slots = start_slots(method, Sentences(None, limits, rngs, ()), cache, length)
        return slots._replace(state=slots.state._replace(tokens=jnp.asarray(starts)[:, None]))

    def run(params: Params, slots: Slots, num_steps: Array) -> tuple[Slots, jax.Array, jax.Array]:
        slots = advance(method, make_step_fn(model, params), slots, num_steps)
        return slots, slots.state.ids[:, 0], is_free(method, slots).all()

    return jax.jit(begin), jax.jit(run, donate_argnums=1)  # the cache is updated in place


def max_num_programs(batch_size: int, largest_bucket: int, options: SearchOptions) -> int:
    """Returns how many programs one search compiles at most.

    For each source length and number of slots there is one to encode and one to advance, and from
    `RETRY_BUCKET` on another to advance with more columns. With source lengths of 16 and 32, and
    1, 8 or 64 slots: 3 · (2 + 3).

    >>> max_num_programs(64, 32, SearchOptions(1, 0.6, "gnmt", max_extra_length=50))
    15
    """
    count = 0
    for bucket in bucket_lengths(largest_bucket):
        few, many = options.first_cache_length(bucket), options.last_cache_length(bucket)
        is_last = bucket >= min(RETRY_BUCKET, largest_bucket) and few < many
        count += len(batch_sizes(batch_size, bucket)) * (2 + is_last)
    return count


def make_replicas(devices: Sequence[jax.Device]) -> Mesh:
    """Returns a mesh with one axis, on which every device is a replica of the model."""
    return Mesh(np.array(devices), (REPLICA,))


def one_behind(items: Iterable[T]) -> Iterator[T]:
    """Yields each item once the next one has been made.

    Calls of compiled functions return before the devices have computed anything. Where an item is
    what such a call returned, its values are thus fetched when the next call has been made already:
    of items a, b and c the order is make a, make b, fetch a, make c, fetch b, fetch c.
    """
    iterator = iter(items)
    for previous in iterator:
        for item in iterator:
            yield previous
            previous = item
        yield previous
