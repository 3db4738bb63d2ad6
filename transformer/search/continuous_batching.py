"""Batches of sentences through the programs of a search: those that are done get off early.

A batch grows until so many of its sentences are done that the others fit a smaller one. Where no
more than half of the largest remain, they wait at the next meeting place for the rest of another
batch. Which sentences share a batch changes nothing: a program treats every row alike.
"""

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from transformer.data.bucketing import batch_sizes, bucket_lengths
from transformer.search.programs import (
    SearchSlots,
    advance_slots,
    begin,
    cache_lengths,
    collect,
    lengthen,
)

MERGE_EVERY = 8  # places between two where small batches meet
IN_FLIGHT = 2  # batches: one for the devices while the host looks at the other
MOST_WAITING = 4  # batches, as they take memory


class Programs:
    """The compiled programs of one search. Each device is a lane with rows of its own.

    The arrays of a batch lead with [lanes · rows]; no lane waits for another within a program.
    """

    def __init__(self, model, method, mesh):
        self.mesh = mesh
        lane, all_lanes = P("lane"), P()
        is_cpu = mesh.devices.flat[0].platform == "cpu"
        self.begin = self._map(partial(begin, model, method), (all_lanes, *[lane] * 4))
        self.advance = self._map(
            partial(advance_slots, model, method),
            (all_lanes, lane, lane, lane, all_lanes, lane),
            donate=() if is_cpu else (2,),  # on the CPU it takes half as long again
        )
        self.lengthen = self._map(partial(lengthen, model, method), (lane,))
        self.collect = self._map(collect, (lane, lane, lane))

    def _map(self, function, in_specs, donate=()):
        specs = dict(mesh=self.mesh, in_specs=in_specs, out_specs=P("lane"), check_vma=False)
        return jax.jit(jax.shard_map(function, **specs), donate_argnums=donate)

    def num_compiled(self):
        """How many programs there are by now."""
        programs = self.begin, self.advance, self.lengthen, self.collect
        return sum(program._cache_size() for program in programs)


def most_programs(batch_size, largest_bucket, extra_length):
    """What a search needs at most: for each source length, size of batch and length of cache."""
    total = 0
    for bucket in bucket_lengths(largest_bucket):
        num_sizes = len(batch_sizes(batch_size, bucket))
        num_caches = len(cache_lengths(bucket + extra_length))
        total += num_caches * (2 * num_sizes + num_sizes**2)
    return total


def make_replicas(devices):
    """A mesh with one axis, of devices that work each for itself."""
    return Mesh(np.array(devices), ("lane",))


def replicate(mesh, tree):
    """A copy on every lane."""
    return jax.device_put(tree, NamedSharding(mesh, P()))


def split(mesh, tree):
    """Arrays with the rows of all lanes, the same number for each, onto the lanes."""
    return jax.device_put(tree, NamedSharding(mesh, P("lane")))


@dataclass
class _RunningBatch:
    """A batch on its way; indices [lanes, rows] are the sentences on it, -1 where there is none."""

    indices: np.ndarray
    bucket: int
    riders: Any
    places: np.ndarray  # [lanes], how far each has come
    cache_length: int  # places that there is room for
    outcome: Any = None  # (places, which are done, results) of the last advance

    @property
    def key(self):
        """Of those that can be put together."""
        return self.rows, self.bucket, self.place, self.cache_length

    @property
    def rows(self):
        """Of a lane."""
        return self.indices.shape[1]

    @property
    def place(self):
        """Of the lane that is furthest."""
        return int(self.places.max())

    @property
    def exists(self):
        return self.indices >= 0

    @property
    def most_on_a_replica(self):
        return int(self.is_there.sum(1).max())

    @property
    def next_cache_length(self):
        """Beyond the present one."""
        lengths = cache_lengths(self.riders.limits.forced.shape[1])
        return next(length for length in lengths if length > self.cache_length)


class ContinuousBatcher:
    """Runs batches through `programs`, some at a time; batch_size as the configuration has it."""

    def __init__(self, programs, params, batch_size):
        self._programs, self._params, self._batch_size = programs, params, batch_size
        self._running, self._waiting = deque(), {}

    def run(self, batches):
        """Yields (index, hypotheses) of every sentence, as they end.

        batches: (indices [lanes, rows], bucket, arrays for `search.begin`), -1 for no sentence.
        """
        batches = iter(batches)
        while True:
            while len(self._running) < IN_FLIGHT and (batch := next(batches, None)):
                self._start(*batch)
            if not self._running:
                if not self._waiting:
                    return
                self._call_up(min)
            load = self._running.popleft()
            yield from self._unload(load)
            if load.is_there.any():
                self._go_on(load)

    def _start(self, indices, bucket, arrays):
        riders = self._programs.begin(self._params, *arrays)
        length = cache_lengths(riders.limits.forced.shape[1])[0]
        self._advance(
            _RunningBatch(indices, bucket, riders, np.zeros(len(indices), np.int32), length)
        )

    def _unload(self, load):
        places, done, results = load.outcome
        places, done = np.asarray(places), np.asarray(done)
        gets_off = done.reshape(load.indices.shape) & load.is_there
        if gets_off.any():
            results = jax.device_get(results)
            for row in np.flatnonzero(gets_off):
                yield load.indices.flat[row], [array[row] for array in results]
        load.indices = np.where(gets_off, -1, load.indices)
        # A lane without sentences is wherever the others are.
        has_some = load.is_there.any(1)
        load.places = np.where(has_some, places, places[has_some].max(initial=0))
        load.outcome = None

    def _go_on(self, load):
        """Runs a batch on with as few rows as it needs; a small one waits at a meeting place."""
        load = self._collect(load)
        is_level = (load.places == load.place).all()
        if not self._is_small(load) or not is_level or load.place % MERGE_EVERY:
            return self._advance(load)
        if load.key in self._waiting:
            return self._go_on(self._collect(load, self._waiting.pop(load.key)))
        self._waiting[load.key] = load
        if len(self._waiting) > MOST_WAITING:
            self._call_up(max)

    def _call_up(self, which):
        """Runs the batch on that waits at the first place (min) or at the last (max)."""
        load = which(self._waiting.values(), key=lambda load: load.place)
        self._advance(self._waiting.pop(load.key))

    def _advance(self, load):
        limits, encoded, state = load.riders
        if load.place == load.cache_length:
            state, load.cache_length = self._programs.lengthen(state), load.next_cache_length
        sizes, stop = self._sizes(load), load.cache_length
        few = max((n for n in sizes if n < load.rows), default=0)
        if self._is_small(load):
            stop = min(stop, load.place + MERGE_EVERY - load.place % MERGE_EVERY)
        else:
            few = max(few, sizes[-1] // 2)
        # A lane that has so few already does not wait for the others to have no more.
        few = np.where(load.is_there.sum(1) > few, few, 0).astype(np.int32)
        state, *load.outcome = self._programs.advance(
            self._params, (limits, encoded), state, load.places, np.int32(stop), few
        )
        load.riders = SearchSlots(limits, encoded, state)
        self._running.append(load)

    def _sizes(self, load):
        """The rows that a batch may go on with: for one alone no program is compiled."""
        sizes = batch_sizes(self._batch_size, load.bucket)
        return [n for n in sizes if n > 1 or n == load.rows]

    def _is_small(self, load):
        return 2 * load.most_on_a_replica <= self._sizes(load)[-1]

    def _collect(self, *loads):
        """The sentences of one batch, or of two with one key, on as few rows as hold them."""
        load, other = loads[0], loads[-1]
        indices = np.concatenate([one.indices for one in loads], axis=1)
        most = (indices >= 0).sum(1).max()
        rows = next(n for n in self._sizes(load) if n >= most)
        if load is other and rows == load.rows:
            return load
        order = np.argsort(indices < 0, axis=1, kind="stable")[:, :rows]
        indices = np.take_along_axis(indices, order, axis=1)
        places = np.where(indices >= 0, order, 2 * load.rows).astype(np.int32)
        riders = self._programs.collect(load.riders, other.riders, places.ravel())
        return replace(load, indices=indices, riders=riders)
