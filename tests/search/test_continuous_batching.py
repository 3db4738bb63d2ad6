"""The conveyor on a fake model: everyone arrives, once, with what a search alone would find.

The tests of several lanes run in a process with eight fake devices: `tests/test_lanes.py`.
"""

import jax
import numpy as np
import pytest

from tests.helpers.fake_model import FakeModel, V, make_limits, make_rules
from transformer.search import continuous_batching
from transformer.search.batches import SearchBatch
from transformer.search.beam_search import BeamSearch
from transformer.search.continuous_batching import ContinuousBatcher
from transformer.search.decoding import search_to_end
from transformer.search.programs import SearchPrograms, max_num_programs
from transformer.search.replicas import make_replicas

WIDTH, LONGEST = 3, 40


class FakeTransformer:
    """What `search` asks of a model, by a `FakeModel`: the source is its start state."""

    def __init__(self, model):
        self.model = model

    def apply(self, variables, *args, method):
        if method == "encode_for_search":
            return args[0]
        if method == "init_cache":
            rows, width, length = args
            return {"state": np.zeros((rows, length, width, 8), np.float32)}
        if method == "lengthen_cache":
            cache, _, lengths = args
            missing = lengths[lengths.index(cache["state"].shape[1]) + 1] - cache["state"].shape[1]
            return {"state": jax.numpy.pad(cache["state"], ((0, 0), (0, missing), (0, 0), (0, 0)))}
        tokens, cache, position, ancestors, start = args
        return self._step(tokens, cache, position, ancestors, start)

    def _step(self, tokens, cache, position, ancestors, start):
        """A cache by places, as the real one: each step reads what the ancestor wrote last."""
        jnp = jax.numpy
        last = jnp.maximum(position - 1, 0)
        written = jax.lax.dynamic_index_in_dim(cache["state"], last, 1, keepdims=False)
        before = jnp.where(position == 0, start[:, None], written)
        logits, after = self.model.step_fn(tokens, before, position, ancestors)
        write = jax.lax.dynamic_update_slice_in_dim
        return logits, {"state": write(cache["state"], after[:, None], position, 1)}


def make_batches(starts, max_lengths, rows, lanes):
    """Batches as `ContinuousBatcher.run` takes them, in order; the last one is padded."""
    per_batch = rows * lanes
    for first in range(0, len(starts), per_batch):
        indices = np.full(per_batch, -1)
        inside = range(first, min(first + per_batch, len(starts)))
        indices[: len(inside)] = inside
        indices = indices.reshape(lanes, rows)
        order = indices.ravel()
        limits = make_limits([LONGEST])
        limits = limits._replace(
            max_lengths=np.where(order >= 0, max_lengths[order], 0).astype(np.int32),
            forced=np.repeat(limits.forced, per_batch, axis=0),
        )
        rngs = np.zeros((per_batch, 2), np.uint32)
        yield SearchBatch(indices, 16, starts[order], np.ones(per_batch, np.int32), limits, rngs)


@pytest.mark.parametrize("rows, lanes", [(1, 1), (4, 1), (9, 1), (30, 1), (9, 4)])
@pytest.mark.parametrize("max_waiting", [0, 4])
def test_everyone_arrives_once_and_as_alone(rows, lanes, max_waiting, monkeypatch):
    """Catches sentences lost, doubled or mixed up where batches shrink, wait, merge or lengthen."""
    monkeypatch.setattr(continuous_batching, "MAX_WAITING", max_waiting)
    if lanes > len(jax.local_devices()):
        pytest.skip(f"needs {lanes} devices")
    count = 47
    model = FakeModel(count)
    rng = np.random.default_rng(1)
    max_lengths = rng.integers(1, LONGEST + 1, count)
    method = BeamSearch(make_rules(alpha=1.5), WIDTH, WIDTH)
    programs = SearchPrograms(
        FakeTransformer(model), method, make_replicas(jax.local_devices()[:lanes])
    )
    batches = make_batches(model.start, max_lengths, rows, lanes)
    arrived = list(ContinuousBatcher(programs, {}, rows).run(batches))
    assert sorted(index for index, _ in arrived) == list(range(count))

    limits = make_limits(max_lengths.tolist())
    alone = search_to_end(method, model.step_fn, limits, model.cache(WIDTH))
    for index, (ids, log_probs, scores) in arrived:
        length = limits.forced.shape[1]
        np.testing.assert_array_equal(ids[:, :length], alone.ids[index])
        np.testing.assert_allclose(log_probs, alone.log_probs[index], rtol=1e-5)
        np.testing.assert_allclose(scores, alone.scores[index], rtol=1e-5)
    assert V == 4 and programs.num_compiled <= max_num_programs(rows, 16, LONGEST - 16)


def record_places(monkeypatch):
    """A list of where the lanes of a batch stand each time that one is run on."""
    calls, advance = [], ContinuousBatcher._advance

    def run_on(self, batch):
        calls.append(batch.positions.tolist())
        return advance(self, batch)

    monkeypatch.setattr(ContinuousBatcher, "_advance", run_on)
    return calls


def test_the_few_of_several_batches_are_put_together(monkeypatch):
    """Catches batches that run on nearly empty: of 8 with one long sentence each, two go on."""
    calls = record_places(monkeypatch)
    count, rows = 64, 8
    model = FakeModel(count)
    max_lengths = np.where(np.arange(count) % rows == 0, LONGEST, 2)
    # No end before the limit: what is long stays long.
    method = BeamSearch(make_rules(min_length=LONGEST), WIDTH)
    programs = SearchPrograms(
        FakeTransformer(model), method, make_replicas(jax.local_devices()[:1])
    )
    arrived = list(
        ContinuousBatcher(programs, {}, rows).run(make_batches(model.start, max_lengths, rows, 1))
    )
    assert len(arrived) == count
    assert calls.count([0]) == 8
    assert calls.count([continuous_batching.MERGE_EVERY]) == 2


@pytest.mark.parametrize(
    "shorter, expected",
    [
        ([5] * 8, [[0, 0], [5, 16]]),  # then both to the end, where the cache is full
        ([5] * 4 + [33] * 4, [[0, 0], [16, 16], [33, 33]]),  # the other lane is empty then
    ],
)
def test_lanes_that_differ_do_not_wait_for_each_other(shorter, expected, monkeypatch):
    """Catches a lane that stands still while another is fuller, and one that ends far ahead."""
    calls = record_places(monkeypatch)
    rows, lanes = 16, 2
    if lanes > len(jax.local_devices()):
        pytest.skip(f"needs {lanes} devices")
    model = FakeModel(rows * lanes)
    # Half of one lane are shorter; no sentence ends before it must.
    max_lengths = np.array(shorter + [LONGEST] * 24)
    method = BeamSearch(make_rules(min_length=LONGEST), WIDTH)
    programs = SearchPrograms(
        FakeTransformer(model), method, make_replicas(jax.local_devices()[:lanes])
    )
    batches = make_batches(model.start, max_lengths, rows, lanes)
    arrived = [index for index, _ in ContinuousBatcher(programs, {}, rows).run(batches)]
    assert sorted(arrived) == list(range(rows * lanes))
    assert calls == expected
