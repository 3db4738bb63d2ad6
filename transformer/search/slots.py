"""Slots: sentences in the middle of a search, each at a position of its own.

Sentences wait in a queue, encoded. When enough slots hold a finished sentence, the results are
collected and the next sentences take the slots, all within one compiled loop. A slot has L columns;
a sentence that has used them without being finished leaves as incomplete, and has to be searched
again with more. An example with 2 slots, L = 3, and the queue a b c d, of which the first three are
finished after 2, 3 and 1 tokens and the last never:

    column   0  1  2  0  1  2
    slot 0   a  a  c  d  d  d
    slot 1   b  b  b  .  .  .    results: a, c, b, and d as incomplete
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.beam_search import BeamState
from transformer.search.decoding import (
    Array,
    Cache,
    Hypotheses,
    Limits,
    SearchMethod,
    StepFn,
    extend_rows,
    keep_rows,
)
from transformer.search.sampling import SampleState

NONE = -1  # the number of no sentence
REFILL_SHARE = 16  # slots are refilled when one of so many is free

Method = SearchMethod[Any]  # a BeamSearch or a Sampling


class Sentences(NamedTuple):
    """Encoded sentences; every array has leading axis B, and those of NONE are last in a queue."""

    numbers: Array  # [B], the caller's, or NONE
    limits: Limits
    rngs: Array  # [B, 2]
    encoded: Any


class Slots(NamedTuple):
    """R slots; one that holds no sentence has a maximal length of 0."""

    sentences: Sentences
    positions: jax.Array  # [R], the next position of each
    starts: jax.Array  # [R], the column in which each began
    column: jax.Array  # [1], the next one
    state: BeamState | SampleState
    cache: Cache


class Results(NamedTuple):
    """What was found for sentences that have left their slots."""

    numbers: Array  # [C], NONE behind the last
    is_complete: Array  # [C], False where the columns did not suffice
    hypotheses: Hypotheses  # [C, …], the ids ordered by position


def advance_slots(
    method: Method,
    make_step_fn: Callable[[Any], StepFn],
    slots: Slots,
    queue: Sentences,
    max_free: jax.Array,
) -> tuple[Slots, Results]:
    """Searches until the queue is empty and at least `max_free` slots are free.

    make_step_fn(encoded) returns the step for the slots' sentences.
    """
    num_slots = len(slots.positions)
    num_waiting = (queue.numbers != NONE).sum()

    def must_continue(carry: tuple[Slots, Results, jax.Array]) -> jax.Array:
        slots, _, num_taken = carry
        return (num_taken < num_waiting) | (_is_free(method, slots).sum() < max_free)

    def must_refill(carry: tuple[Slots, Results, jax.Array]) -> jax.Array:
        slots, _, num_taken = carry
        min_free = max(1, num_slots // REFILL_SHARE)
        return (num_taken < num_waiting) & (_is_free(method, slots).sum() >= min_free)

    def refill(carry: tuple[Slots, Results, jax.Array]) -> tuple[Slots, Results, jax.Array]:
        slots, results, num_taken = carry
        slots, results = _collect(method, slots, results)
        slots, num_taken = _take(method, slots, queue, num_taken, num_waiting)
        return slots, results, num_taken

    def step(carry: tuple[Slots, Results, jax.Array]) -> tuple[Slots, Results, jax.Array]:
        # A loop that runs at most once: in contrast to a condition it copies nothing.
        slots, results, num_taken = jax.lax.while_loop(must_refill, refill, carry)
        return _extend(method, make_step_fn, slots), results, num_taken

    results = _no_results(method, slots, num_slots + len(queue.numbers))
    carry = jax.lax.while_loop(must_continue, step, (slots, results, jnp.int32(0)))
    return _collect(method, *carry[:2])


def _is_free(method: Method, slots: Slots) -> jax.Array:
    """Returns the slots [R] whose sentence is finished, has used all columns, or is none."""
    is_finished = method.is_finished(slots.sentences.limits, slots.state)
    return is_finished | (slots.positions >= slots.state.ids.shape[2])


def _extend(method: Method, make_step_fn: Callable[[Any], StepFn], slots: Slots) -> Slots:
    """Returns the slots after one step."""
    is_free, column = _is_free(method, slots), slots.column[0]
    step_fn, limits = make_step_fn(slots.sentences.encoded), slots.sentences.limits
    rows = limits, slots.state, slots.cache, slots.positions
    state, cache = extend_rows(method, step_fn, *rows, column, is_free)
    return slots._replace(
        positions=slots.positions + ~is_free,
        column=(slots.column + 1) % slots.state.ids.shape[2],
        state=state,
        cache=cache,
    )


def _take(
    method: Method, slots: Slots, queue: Sentences, num_taken: jax.Array, num_waiting: jax.Array
) -> tuple[Slots, jax.Array]:
    """Returns the slots with the next sentences of the queue in free ones, and their number."""
    is_free = _is_free(method, slots)
    rank = num_taken + jnp.cumsum(is_free) - 1  # in the queue, of the sentence for each free slot
    is_kept = ~is_free | (rank >= num_waiting)
    next_sentences = jax.tree.map(lambda leaf: jnp.take(leaf, rank, axis=0, mode="clip"), queue)
    start = method.start(next_sentences.rngs, slots.state.ids.shape[2])
    slots = slots._replace(
        sentences=keep_rows(is_kept, slots.sentences, next_sentences),
        positions=jnp.where(is_kept, slots.positions, 0),
        starts=jnp.where(is_kept, slots.starts, slots.column),
        state=keep_rows(is_kept, slots.state, start),
    )
    return slots, num_taken + (~is_kept).sum()


def _no_results(method: Method, slots: Slots, count: int) -> Results:
    """Returns arrays for the results of `count` sentences, without any."""
    shapes = jax.eval_shape(method.results, slots.state)
    zeros = jax.tree.map(lambda x: jnp.zeros((count, *x.shape[1:]), x.dtype), shapes)
    return Results(jnp.full(count, NONE), jnp.zeros(count, bool), zeros)


def _collect(method: Method, slots: Slots, results: Results) -> tuple[Slots, Results]:
    """Returns the slots without the sentences of those that are free, and the results with them."""
    numbers = slots.sentences.numbers
    is_leaving = _is_free(method, slots) & (numbers != NONE)
    num_before = (results.numbers != NONE).sum()
    end = len(results.numbers)  # where nothing is written
    indices = jnp.where(is_leaving, num_before + jnp.cumsum(is_leaving) - 1, end)
    hypotheses = method.results(slots.state)
    # As a gather of single ids, the TPU compiler of jax 0.10 fails on it where L is 128.
    ids = jax.vmap(lambda ids, start: jnp.roll(ids, -start, axis=1))(hypotheses.ids, slots.starts)
    is_complete = method.is_finished(slots.sentences.limits, slots.state)
    new = Results(numbers, is_complete, hypotheses._replace(ids=ids))
    results = jax.tree.map(lambda all, x: all.at[indices].set(x, mode="drop"), results, new)
    numbers = jnp.where(is_leaving, NONE, numbers)
    return slots._replace(sentences=slots.sentences._replace(numbers=numbers)), results
