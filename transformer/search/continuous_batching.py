"""Continuous batching: finished sentences leave a batch early, and small batches are merged.

A batch runs until its unfinished sentences fit a smaller batch size, into which they are gathered.
When at most half of the largest batch size is unfinished, the rest waits at the next multiple of
`MERGE_EVERY` positions to be merged with another such batch. Which sentences share a batch changes
no result: a program treats every row alike.

An example on one device with batch sizes 8, 24, 48 and 64:

    64 rows run until at most 48 sentences are unfinished, say at position 11: they go into 48 rows.
    48 rows run until at most 32 are unfinished, say at position 14: at most half of 64, so they run
    on only to position 16, or until 24 are unfinished. At position 16, with 30 left, they wait in
    48 rows. The next batch arrives there with 26 left: the 56 go into 64 rows and run on.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import numpy as np

from transformer.data.bucketing import batch_sizes
from transformer.search.batches import SearchBatch
from transformer.search.decoding import Hypotheses
from transformer.search.programs import (
    Advanced,
    Params,
    SearchPrograms,
    SearchSlots,
    cache_lengths,
)

MERGE_EVERY = 8  # positions
MAX_RUNNING = 2  # batches: one on the devices while the host reads the results of the other
MAX_WAITING = 4  # batches, since each occupies memory


class MergeKey(NamedTuple):
    """Batches with equal keys can be merged."""

    rows: int
    bucket: int
    position: int
    cache_length: int


@dataclass
class _RunningBatch:
    """A batch between two programs."""

    indices: np.ndarray  # [replicas, rows], the sentence in each slot, -1 for none
    bucket: int
    slots: SearchSlots
    positions: np.ndarray  # [replicas], the next position of each
    cache_length: int  # positions that the cache holds

    @property
    def key(self) -> MergeKey:
        return MergeKey(self.rows, self.bucket, self.position, self.cache_length)

    @property
    def rows(self) -> int:
        """Rows per replica."""
        return self.indices.shape[1]

    @property
    def position(self) -> int:
        """The largest position over all replicas."""
        return int(self.positions.max())

    @property
    def is_active(self) -> np.ndarray:
        """Which slots [replicas, rows] hold a sentence."""
        return self.indices >= 0

    @property
    def num_active(self) -> int:
        """The largest number of sentences on a replica."""
        return int(self.is_active.sum(1).max())

    @property
    def next_cache_length(self) -> int:
        """The next larger cache length."""
        lengths = cache_lengths(self.slots.limits.forced.shape[1])
        return next(length for length in lengths if length > self.cache_length)


class ContinuousBatcher:
    """Runs batches through the programs of a search.

    batch_size: the largest number of rows per replica, `decoding.batch_size`; batches of long
    sentences have fewer (see `bucketing.batch_sizes`).
    """

    def __init__(self, programs: SearchPrograms, params: Params, batch_size: int) -> None:
        self._programs, self._params, self._batch_size = programs, params, batch_size
        self._running: deque[tuple[_RunningBatch, Advanced]] = deque()
        self._waiting: dict[MergeKey, _RunningBatch] = {}

    def run(self, batches: Iterable[SearchBatch]) -> Iterator[tuple[int, Hypotheses]]:
        """Yields (index, hypotheses) of every sentence, as it finishes.

        The arrays of the hypotheses are numpy's and lack the leading axis B.
        """
        batches = iter(batches)
        while True:
            while len(self._running) < MAX_RUNNING and (new := next(batches, None)):
                self._begin(new)
            if not self._running:
                if not self._waiting:
                    return
                self._resume_waiting(min)
            batch, advanced = self._running.popleft()
            yield from self._remove_finished(batch, advanced)
            if batch.is_active.any():
                self._continue(batch)

    def _begin(self, new: SearchBatch) -> None:
        inputs = new.inputs, new.source_lengths, new.limits, new.rngs
        slots = self._programs.begin(self._params, *inputs)
        length = cache_lengths(slots.limits.forced.shape[1])[0]
        positions = np.zeros(len(new.indices), np.int32)
        self._advance(_RunningBatch(new.indices, new.bucket, slots, positions, length))

    def _remove_finished(
        self, batch: _RunningBatch, advanced: Advanced
    ) -> Iterator[tuple[int, Hypotheses]]:
        """Waits for a program, yields the sentences that it finished and empties their slots."""
        positions, is_finished = np.asarray(advanced.position), np.asarray(advanced.is_finished)
        is_leaving = is_finished.reshape(batch.indices.shape) & batch.is_active
        if is_leaving.any():
            results = jax.device_get(advanced.results)
            for row in np.flatnonzero(is_leaving):
                yield int(batch.indices.flat[row]), Hypotheses(*(array[row] for array in results))
        batch.indices = np.where(is_leaving, -1, batch.indices)
        # A replica without sentences counts as having reached the same position as the others.
        is_used = batch.is_active.any(1)
        batch.positions = np.where(is_used, positions, positions[is_used].max(initial=0))

    def _continue(self, batch: _RunningBatch) -> None:
        """Continues a batch in the fewest rows that hold it, or lets it wait to be merged."""
        batch = self._gather(batch)
        is_aligned = (batch.positions == batch.position).all()
        if not self._is_small(batch) or not is_aligned or batch.position % MERGE_EVERY:
            return self._advance(batch)
        if batch.key in self._waiting:
            return self._continue(self._gather(batch, self._waiting.pop(batch.key)))
        self._waiting[batch.key] = batch
        if len(self._waiting) > MAX_WAITING:
            self._resume_waiting(max)

    def _resume_waiting(self, choose: Callable[..., _RunningBatch]) -> None:
        """Runs the waiting batch at the smallest position (`min`) or the largest (`max`)."""
        batch = choose(self._waiting.values(), key=lambda batch: batch.position)
        self._advance(self._waiting.pop(batch.key))

    def _advance(self, batch: _RunningBatch) -> None:
        """Starts the next program of a batch without waiting for it."""
        limits, encoded, state = batch.slots
        if batch.position == batch.cache_length:
            state, batch.cache_length = self._programs.lengthen(state), batch.next_cache_length
        sizes, stop = self._sizes(batch), batch.cache_length
        max_unfinished = max((n for n in sizes if n < batch.rows), default=0)
        if self._is_small(batch):
            stop = min(stop, batch.position + MERGE_EVERY - batch.position % MERGE_EVERY)
        else:
            max_unfinished = max(max_unfinished, sizes[-1] // 2)
        # A replica that has no more than that already runs on instead of waiting for the others.
        exceeds = batch.is_active.sum(1) > max_unfinished
        per_replica = np.where(exceeds, max_unfinished, 0).astype(np.int32)
        advanced = self._programs.advance(
            self._params, (limits, encoded), state, batch.positions, np.int32(stop), per_replica
        )
        batch.slots = SearchSlots(limits, encoded, advanced.state)
        self._running.append((batch, advanced))

    def _sizes(self, batch: _RunningBatch) -> list[int]:
        """Returns the numbers of rows that a batch may have next, in rising order.

        One row is only for a batch that began with it: it is not worth programs of its own.
        """
        sizes = batch_sizes(self._batch_size, batch.bucket)
        return [n for n in sizes if n > 1 or n == batch.rows]

    def _is_small(self, batch: _RunningBatch) -> bool:
        return 2 * batch.num_active <= self._sizes(batch)[-1]

    def _gather(self, batch: _RunningBatch, other: _RunningBatch | None = None) -> _RunningBatch:
        """Returns the sentences of one batch or two, in the fewest rows; two have equal keys.

        An example on one replica, with batches of 4 rows (. is -1):

            indices                 7 . 9 .   and   3 . . 5
            order of the active     0 2 4 7, numbered through both batches
            gathered indices        7 9 3 5
        """
        pair = (batch,) if other is None else (batch, other)
        indices = np.concatenate([one.indices for one in pair], axis=1)
        num_active = (indices >= 0).sum(1).max()
        rows = next(n for n in self._sizes(batch) if n >= num_active)
        if other is None and rows == batch.rows:
            return batch
        order = np.argsort(indices < 0, axis=1, kind="stable")[:, :rows]
        indices = np.take_along_axis(indices, order, axis=1)
        order = np.where(indices >= 0, order, 2 * batch.rows).astype(np.int32)
        slots = self._programs.gather(batch.slots, pair[-1].slots, order.ravel())
        return replace(batch, indices=indices, slots=slots)
