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

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.search.beam_search import BeamSearch
from transformer.search.decoding import Array, Cache, Hypotheses, Limits, State, StepFn
from transformer.search.sampling import Sampling

NONE = -1  # the number of no sentence
REFILL_SHARE = 16  # slots are refilled when one of so many is free

SearchMethod = BeamSearch | Sampling


class Sentences(NamedTuple):
    """Encoded sentences; every array has leading axis B, and those of NONE are last in a queue."""

    numbers: Any  # [B], the caller's, or NONE
    limits: Limits
    rngs: Array  # [B, 2]
    encoded: Any


class Slots(NamedTuple):
    """R slots; one that holds no sentence has a maximal length of 0."""

    sentences: Sentences
    positions: jax.Array  # [R], the next position of each
    starts: jax.Array  # [R], the column in which each began
    column: jax.Array  # [1], the next one
    state: State
    cache: Cache


class Results(NamedTuple):
    """What was found for sentences that have left their slots."""

    numbers: Array  # [C], NONE behind the last
    is_complete: Array  # [C], False where the columns did not suffice
    hypotheses: Hypotheses  # [C, …], the ids ordered by position


Carry = tuple[Slots, Results, jax.Array]  # and how many of a queue have been taken


def start_slots(method: SearchMethod, sentences: Sentences, cache: Cache, length: int) -> Slots:
    """Returns a slot for each sentence, all of which begin in the first of `length` columns."""
    zeros = jnp.zeros(sentences.rngs.shape[0], jnp.int32)
    return Slots(sentences, zeros, zeros, zeros[:1], method.start(sentences.rngs, length), cache)


def search_to_end(
    method: SearchMethod,
    step_fn: StepFn,
    limits: Limits,
    cache: Cache,
    encoded: Any = (),
    rngs: Array | None = None,
) -> Hypotheses:
    """Searches all sentences to their end in one loop; rngs [B, 2] are for sampling.

    The cache has a column for every position of `limits.forced`.
    """
    num_sentences, length = limits.forced.shape
    rngs = jnp.zeros((num_sentences, 2), jnp.uint32) if rngs is None else rngs
    slots = start_slots(method, Sentences(None, limits, rngs, encoded), cache, length)
    return method.results(advance(method, step_fn, slots, length).state)


def advance(method: SearchMethod, step_fn: StepFn, slots: Slots, num_steps: int | Array) -> Slots:
    """Returns the slots after so many steps, or fewer where all are free before."""

    def must_continue(carry: tuple[jax.Array, Slots]) -> jax.Array:
        return (carry[0] < num_steps) & ~is_free(method, carry[1]).all()

    def step(carry: tuple[jax.Array, Slots]) -> tuple[jax.Array, Slots]:
        return carry[0] + 1, _extend(method, step_fn, carry[1])

    return jax.lax.while_loop(must_continue, step, (jnp.int32(0), slots))[1]


def advance_slots(
    method: SearchMethod, step_fn: StepFn, slots: Slots, queue: Sentences, max_free: jax.Array
) -> tuple[Slots, Results]:
    """Searches until the queue is empty and at least `max_free` slots are free."""
    num_slots, num_waiting = len(slots.positions), (queue.numbers != NONE).sum()
    min_free = max(1, num_slots // REFILL_SHARE)

    def must_continue(carry: Carry) -> jax.Array:
        slots, _, num_taken = carry
        return (num_taken < num_waiting) | (is_free(method, slots).sum() < max_free)

    def must_refill(carry: Carry) -> jax.Array:
        slots, _, num_taken = carry
        return (num_taken < num_waiting) & (is_free(method, slots).sum() >= min_free)

    def refill(carry: Carry) -> Carry:
        slots, results, num_taken = carry
        slots, results = _collect(method, slots, results)
        slots, num_taken = _take(method, slots, queue, num_taken, num_waiting)
        return slots, results, num_taken

    def step(carry: Carry) -> Carry:
        # A loop that runs at most once: in contrast to a condition it copies nothing.
        slots, results, num_taken = jax.lax.while_loop(must_refill, refill, carry)
        return _extend(method, step_fn, slots), results, num_taken

    size, hypotheses = num_slots + len(queue.numbers), jax.eval_shape(method.results, slots.state)
    zeros = jax.tree.map(lambda x: jnp.zeros((size, *x.shape[1:]), x.dtype), hypotheses)
    results = Results(jnp.full(size, NONE), jnp.zeros(size, bool), zeros)
    carry = jax.lax.while_loop(must_continue, step, (slots, results, jnp.int32(0)))
    return _collect(method, *carry[:2])


def is_free(method: SearchMethod, slots: Slots) -> jax.Array:
    """Returns the slots [R] whose sentence is finished, has used all columns, or is none."""
    is_finished = method.is_finished(slots.sentences.limits, slots.state)
    return is_finished | (slots.positions >= slots.state.ids.shape[2])


def _extend(method: SearchMethod, step_fn: StepFn, slots: Slots) -> Slots:
    """Returns the slots after one step, in which those that are free keep their state."""
    state, positions, column = slots.state, slots.positions, slots.column[0]
    is_kept = is_free(method, slots)
    ancestors = method.ancestors(state, positions, column)
    place = positions, column, ancestors
    logits, cache = step_fn(state.tokens, slots.cache, *place, slots.sentences.encoded)
    extended = method.extend(slots.sentences.limits, state, logits, positions, column)
    return slots._replace(
        positions=positions + ~is_kept,
        column=(slots.column + 1) % state.ids.shape[2],
        state=_keep_rows(is_kept, state, extended),
        cache=cache,
    )


def _keep_rows(is_kept: jax.Array, old: Any, new: Any) -> Any:
    """Returns arrays [B, …] with the rows of `old` where `is_kept` [B], else those of `new`."""

    def select(old: Array, new: Array) -> jax.Array:
        return jnp.where(is_kept.reshape(-1, *[1] * (new.ndim - 1)), old, new)

    return jax.tree.map(select, old, new)


def _take(
    method: SearchMethod,
    slots: Slots,
    queue: Sentences,
    num_taken: jax.Array,
    num_waiting: jax.Array,
) -> tuple[Slots, jax.Array]:
    """Returns the slots with the next sentences of the queue in free ones, and their number."""
    free = is_free(method, slots)
    rank = num_taken + jnp.cumsum(free) - 1  # in the queue, of the sentence for each free slot
    is_kept = ~free | (rank >= num_waiting)
    next_sentences = jax.tree.map(lambda leaf: jnp.take(leaf, rank, axis=0, mode="clip"), queue)
    start = method.start(next_sentences.rngs, slots.state.ids.shape[2])
    slots = slots._replace(
        sentences=_keep_rows(is_kept, slots.sentences, next_sentences),
        positions=jnp.where(is_kept, slots.positions, 0),
        starts=jnp.where(is_kept, slots.starts, slots.column),
        state=_keep_rows(is_kept, slots.state, start),
    )
    return slots, num_taken + (~is_kept).sum()


def _collect(method: SearchMethod, slots: Slots, results: Results) -> tuple[Slots, Results]:
    """Returns the slots without the sentences of those that are free, and the results with them."""
    numbers = slots.sentences.numbers
    is_leaving = is_free(method, slots) & (numbers != NONE)
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
