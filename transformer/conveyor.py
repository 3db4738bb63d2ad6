"""Batches of sentences through the programs of a search: those that are done get off at once.

A batch grows by a few places, then its finished sentences leave. Where few remain, they wait for
the remaining ones of another batch at the same place, so that the devices work on full batches.
Which sentences share a batch changes nothing: a program treats every row alike, and the shapes that
a sentence goes through are those of its own length.
"""

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from transformer.bucketing import batch_rows, buckets
from transformer.search import advance_riders, begin, cache_lengths, collect, lengthen, next_stop

STRIDE = 8  # places between two looks at who is done
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
            partial(advance_riders, model, method),
            (all_lanes, lane, lane, all_lanes, all_lanes),
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
    for bucket in buckets(largest_bucket):
        num_sizes = len(batch_rows(batch_size, bucket))
        num_caches = len(cache_lengths(bucket + extra_length))
        to_fewer_or_as_many = num_sizes * (num_sizes + 1) // 2
        total += num_caches * (2 * num_sizes + to_fewer_or_as_many)
    return total


def make_lanes(devices):
    """A mesh with one axis, of devices that work each for itself."""
    return Mesh(np.array(devices), ("lane",))


def replicate(mesh, tree):
    """A copy on every lane."""
    return jax.device_put(tree, NamedSharding(mesh, P()))


def split(mesh, tree):
    """Arrays with the rows of all lanes, the same number for each, onto the lanes."""
    return jax.device_put(tree, NamedSharding(mesh, P("lane")))


@dataclass
class _Load:
    """A batch on its way; indices [lanes, rows] are the sentences on it, -1 where there is none."""

    indices: np.ndarray
    bucket: int
    riders: Any
    position: int = 0
    outcome: Any = None  # (which are done, results) of the last advance

    @property
    def key(self):
        return self.indices.shape[1], self.bucket, self.position

    @property
    def is_there(self):
        return self.indices >= 0

    @property
    def most_in_a_lane(self):
        return int(self.is_there.sum(1).max())

    @property
    def lengths(self):
        """What the cache goes through."""
        return cache_lengths(self.riders.limits.forced.shape[1])


class Conveyor:
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
                self._advance(self._waiting.pop(min(self._waiting, key=lambda key: key[2])))
            load = self._running.popleft()
            yield from self._unload(load)
            if load.is_there.any():
                self._go_on(load)

    def _start(self, indices, bucket, arrays):
        self._advance(_Load(indices, bucket, self._programs.begin(self._params, *arrays)))

    def _unload(self, load):
        done, results = load.outcome
        gets_off = np.asarray(done).reshape(load.indices.shape) & load.is_there
        if gets_off.any():
            results = jax.device_get(results)
            for row in np.flatnonzero(gets_off):
                yield load.indices.flat[row], [array[row] for array in results]
        load.indices = np.where(gets_off, -1, load.indices)
        load.outcome = None

    def _go_on(self, load):
        """Runs a batch on, alone or with those that wait at the same place, or lets it wait."""
        other = self._waiting.pop(load.key, None)
        if other is not None:
            if (load.is_there.sum(1) + other.is_there.sum(1)).max() <= load.indices.shape[1]:
                load = self._collect(load, other, load.indices.shape[1])
            else:
                load, other = sorted((load, other), key=lambda one: -one.most_in_a_lane)
                self._waiting[other.key] = other
                return self._advance(load)
        if 2 * load.most_in_a_lane > load.indices.shape[1]:
            return self._advance(load)
        self._waiting[load.key] = load
        if len(self._waiting) > MOST_WAITING:
            self._advance(self._waiting.pop(max(self._waiting, key=lambda key: key[2])))

    def _advance(self, load):
        rows = load.indices.shape[1]
        sizes = batch_rows(self._batch_size, load.bucket)[1:]  # for one row no program is compiled
        fewer = [n for n in sizes if load.most_in_a_lane <= n < rows]
        if fewer:
            load = self._collect(load, None, fewer[0])
        if load.position in load.lengths:
            load.riders = load.riders._replace(state=self._programs.lengthen(load.riders.state))
        limits, encoded, state = load.riders
        stop = next_stop(load.position, load.lengths, STRIDE)
        where = np.int32(load.position), np.int32(stop)
        state, *load.outcome = self._programs.advance(
            self._params, (limits, encoded), state, *where
        )
        load.position, load.riders = stop, load.riders._replace(state=state)
        self._running.append(load)

    def _collect(self, load, other, rows):
        """The sentences of one or two batches in one with so many rows a lane."""
        loads = [load] if other is None else [load, other]
        indices = np.concatenate([one.indices for one in loads], axis=1)
        order = np.argsort(indices < 0, axis=1, kind="stable")[:, :rows]
        indices = np.take_along_axis(indices, order, axis=1)
        places = np.where(indices >= 0, order, 2 * load.indices.shape[1]).astype(np.int32)
        riders = self._programs.collect(load.riders, loads[-1].riders, places.ravel())
        return _Load(indices, load.bucket, riders, load.position)
