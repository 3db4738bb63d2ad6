"""Searches any number of sentences: bucket by bucket, each as a queue for the same slots.

The few that need more columns than most are searched again at the end, padded to a common length.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import jax
import numpy as np

from transformer.data.rows.bucketing import (
    RETRY_BUCKET,
    buckets_of,
    choose_slots,
    deal,
    fill_inputs,
)
from transformer.data.rows.ragged import Ragged
from transformer.search.decoding import FREE, Hypotheses, Limits
from transformer.search.options import SearchOptions
from transformer.search.programs import Params, SearchPrograms, one_behind
from transformer.search.sampling import make_rngs
from transformer.search.slots import NONE, REFILL_SHARE, Results, Sentences

IndexAndHypotheses = tuple[int, Hypotheses]  # of a sentence, without the axis B


def pair_with_prefixes(
    sentences: Iterable[str], prefixes: Iterable[str] | None
) -> Iterator[tuple[str, str]]:
    """Yields (sentence, prefix) pairs; without `prefixes` all of them are empty.

    Raises ValueError when one of the two ends before the other.
    """
    missing = "" if prefixes is None else None
    for sentence, prefix in zip_longest(sentences, prefixes or (), fillvalue=missing):
        if sentence is None or prefix is None:
            raise ValueError("Every sentence needs a prefix, which may be empty, and vice versa.")
        yield sentence, prefix


def make_inputs(
    source: Ragged, prefixes: Ragged, rows: np.ndarray, bucket: int, options: SearchOptions
) -> tuple[np.ndarray, np.ndarray, Limits, np.ndarray]:
    """Returns (ids [B, S], lengths [B], limits, rngs [B, 2]) of the sentences at `rows` [B].

    A row of -1 has no sentence, and length 0. S is the `bucket`; a longer sentence is cut. Raises
    ValueError for a prefix that fills a whole translation.
    """
    inputs, lengths = fill_inputs(source, rows, bucket)
    most = bucket + options.max_extra_length
    forced = np.full((len(rows), most), FREE, np.int32)
    for row in np.flatnonzero(rows >= 0):
        ids = prefixes[rows[row]][:-1]  # without EOS
        if len(ids) >= most:
            raise ValueError(
                f"A prefix has {len(ids)} pieces, but a translation of this sentence at most "
                f"{most}; shorten the prefix or raise max_extra_length."
            )
        forced[row, : len(ids)] = ids
    max_lengths = np.where(lengths > 0, lengths + options.max_extra_length, 0).astype(np.int32)
    # Where nothing is drawn, no keys are made: real ones wait for the device.
    no_rngs = np.zeros((len(inputs), 2), np.uint32)
    rngs = make_rngs(options.seed, inputs) if options.sample else no_rngs
    return inputs, lengths, Limits(max_lengths, forced), rngs


@dataclass(frozen=True)
class CorpusSearch:
    """Runs sentences through the programs of a search.

    batch_size: the largest number of slots per replica, `decoding.batch_size`; long sentences have
    fewer (see `bucketing.batch_sizes`). Sentences longer than `largest_bucket` are cut.
    """

    programs: SearchPrograms
    params: Params
    options: SearchOptions
    batch_size: int
    largest_bucket: int

    def run(self, source: Ragged, forced: Ragged) -> Iterator[IndexAndHypotheses]:
        """Yields (index, hypotheses) of every sentence, as it finishes.

        forced: the prefixes of the translations. The arrays of the hypotheses are numpy's.
        """
        incomplete = [np.zeros(0, int)]
        for bucket, indices in buckets_of(source.lengths, self.largest_bucket):
            length = self.options.first_cache_length(bucket)
            incomplete.append((yield from self._search(source, forced, indices, bucket, length)))
        waiting = np.concatenate(incomplete)
        lengths = np.maximum(source.lengths[waiting], RETRY_BUCKET)
        for bucket, rows in buckets_of(lengths, self.largest_bucket):
            length = self.options.last_cache_length(bucket)
            yield from self._search(source, forced, waiting[rows], bucket, length)

    def _search(
        self, source: Ragged, forced: Ragged, indices: np.ndarray, bucket: int, length: int
    ) -> Generator[IndexAndHypotheses, None, np.ndarray]:
        """Yields what is found with `length` columns; returns the indices of the other sentences.

        When most are incomplete, the rest is not tried.
        """
        left, num_incomplete = dict.fromkeys(indices.tolist()), 0
        for results in one_behind(self._advance(source, forced, indices, bucket, length)):
            numbers, is_complete, hypotheses = jax.device_get(results)
            for row in np.flatnonzero(is_complete & (numbers != NONE)):
                del left[int(numbers[row])]
                yield int(numbers[row]), Hypotheses(*(array[row] for array in hypotheses))
            num_incomplete += int((~is_complete & (numbers != NONE)).sum())
            if num_incomplete > len(indices) - len(left):
                break
        return np.array(list(left), int)

    def _advance(
        self, source: Ragged, forced: Ragged, indices: np.ndarray, bucket: int, length: int
    ) -> Iterator[Results]:
        """Yields the results of each queue, which the devices may still be computing."""
        programs, num_replicas = self.programs, self.programs.replicas.size
        rows = choose_slots(-(-len(indices) // num_replicas), self.batch_size, bucket)
        slots = None
        for first in range(0, len(indices), rows * num_replicas):
            last = first + rows * num_replicas
            numbers = deal(indices[first:last], rows, num_replicas).ravel()
            ids, lengths, limits, rngs = make_inputs(source, forced, numbers, bucket, self.options)
            encoded = programs.encode(self.params, ids, lengths)
            queue = Sentences(numbers.astype(np.int32), limits, rngs, encoded)
            slots = slots or programs.empty_slots(queue, length)
            # Slots stay busy from queue to queue; the last one runs until all are free.
            max_free = max(1, rows // REFILL_SHARE) if last < len(indices) else rows
            free = np.full(num_replicas, max_free, np.int32)
            slots, results = programs.advance(self.params, slots, queue, free)
            yield results
