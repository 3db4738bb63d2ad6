"""Continuous batching of a fake model: every sentence once, with what a search alone would find."""

import functools
from contextlib import contextmanager
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.fake_model import FakeModel, make_limits, make_rules
from transformer.search import continuous_batching
from transformer.search.batches import SearchBatch
from transformer.search.beam_search import BeamSearch
from transformer.search.continuous_batching import ContinuousBatcher
from transformer.search.decoding import FREE, Limits, search_to_end
from transformer.search.programs import SearchPrograms, max_num_programs
from transformer.search.replicas import make_replicas

WIDTH, LONGEST, NUM_SENTENCES = 3, 40, 64


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
            return {"state": jnp.pad(cache["state"], ((0, 0), (0, missing), (0, 0), (0, 0)))}
        return self._step(*args)

    def _step(self, tokens, cache, position, ancestors, start):
        """A cache by positions, as the real one: each step reads what the ancestor wrote last."""
        last = jnp.maximum(position - 1, 0)
        written = jax.lax.dynamic_index_in_dim(cache["state"], last, 1, keepdims=False)
        before = jnp.where(position == 0, start[:, None], written)
        logits, after = self.model.step_fn(tokens, before, position, ancestors)
        write = jax.lax.dynamic_update_slice_in_dim
        return logits, {"state": write(cache["state"], after[:, None], position, 1)}


MODEL = FakeModel(NUM_SENTENCES)
BEAM_SEARCH = BeamSearch(make_rules(alpha=1.5), WIDTH, WIDTH)


@functools.cache
def make_programs(num_replicas):
    """Programs that the tests share, so that each shape is compiled once."""
    devices = jax.local_devices()[:num_replicas]
    if num_replicas > len(devices):
        pytest.skip(f"needs {num_replicas} devices")
    return SearchPrograms(FakeTransformer(MODEL), BEAM_SEARCH, make_replicas(devices))


def make_batches(max_lengths, rows, num_replicas, token=FREE):
    """Batches as `ContinuousBatcher.run` takes them, in order; the last may have empty rows.

    token: the prefix of every output consists of it, so that no sentence ends before its limit.
    """
    per_batch = rows * num_replicas
    for first in range(0, len(max_lengths), per_batch):
        order = np.arange(first, first + per_batch)
        order = np.where(order < len(max_lengths), order, -1)
        limited = np.where(order >= 0, max_lengths[order], 0).astype(np.int32)
        is_forced = np.arange(LONGEST) < limited[:, None] - 1
        limits = Limits(limited, np.where(is_forced, token, FREE))
        rngs = np.zeros((per_batch, 2), np.uint32)
        indices, lengths = order.reshape(num_replicas, rows), np.ones(per_batch, np.int32)
        yield SearchBatch(indices, 16, MODEL.start[order], lengths, limits, rngs)


@pytest.fixture(scope="module")
def alone():
    """The limits of 47 sentences, and what a search of all of them in one batch finds."""
    max_lengths = np.random.default_rng(1).integers(1, LONGEST + 1, 47)
    limits = make_limits(max_lengths.tolist())
    cache = MODEL.cache(WIDTH)[:47]
    run = jax.jit(lambda: search_to_end(BEAM_SEARCH, MODEL.step_fn, limits, cache))
    return max_lengths, jax.device_get(run())


@contextmanager
def record_compiles():
    """A list that grows with every program that XLA compiles meanwhile."""
    compiles = []

    def listen(name, *_, **__):
        if "backend_compile" in name:
            compiles.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield compiles
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.mark.parametrize("rows, num_replicas", [(1, 1), (16, 1), (16, 2)])
@pytest.mark.parametrize("max_waiting", [0, 4])
def test_every_sentence_arrives_once_and_as_alone(
    rows, num_replicas, max_waiting, alone, monkeypatch
):
    """Catches sentences lost, doubled or mixed up where batches shrink, wait, merge or lengthen.

    Also programs that are compiled again for the same shapes, and a wrong count of them.
    """
    monkeypatch.setattr(continuous_batching, "MAX_WAITING", max_waiting)
    max_lengths, expected = alone
    programs = make_programs(num_replicas)
    num_before = programs.num_compiled
    batches = make_batches(max_lengths, rows, num_replicas)
    with record_compiles() as compiles:
        arrived = list(ContinuousBatcher(programs, {}, rows).run(batches))
    assert len(compiles) == programs.num_compiled - num_before
    assert programs.num_compiled <= max_num_programs(16, 16, LONGEST - 16)
    assert sorted(index for index, _ in arrived) == list(range(len(max_lengths)))
    for index, (ids, log_probs, scores) in arrived:
        np.testing.assert_array_equal(ids, expected.ids[index])
        np.testing.assert_allclose(log_probs, expected.log_probs[index], rtol=1e-5)
        np.testing.assert_allclose(scores, expected.scores[index], rtol=1e-5)


def record_positions(monkeypatch):
    """A list of the positions of a batch on each replica, each time that one is advanced."""
    calls, advance = [], ContinuousBatcher._advance

    def recorded(self, batch):
        calls.append(batch.positions.tolist())
        return advance(self, batch)

    monkeypatch.setattr(ContinuousBatcher, "_advance", recorded)
    return calls


def test_the_rest_of_several_batches_is_merged(monkeypatch):
    """Catches batches that run on nearly empty: of 8 with one long sentence each, two run on."""
    calls = record_positions(monkeypatch)
    rows = 8
    max_lengths = np.where(np.arange(NUM_SENTENCES) % rows == 0, LONGEST, 2)
    programs = make_programs(1)
    arrived = list(ContinuousBatcher(programs, {}, rows).run(make_batches(max_lengths, rows, 1, 3)))
    assert len(arrived) == NUM_SENTENCES
    assert calls.count([0]) == 8
    assert calls.count([continuous_batching.MERGE_EVERY]) == 2


@pytest.mark.parametrize(
    "shorter, expected",
    [
        ([5] * 8, [[0, 0], [5, 16]]),  # then both to the end, where the cache is full
        ([5] * 4 + [33] * 4, [[0, 0], [16, 16], [33, 33]]),  # the other replica is empty then
    ],
)
def test_replicas_that_differ_do_not_wait_for_each_other(shorter, expected, monkeypatch):
    """Catches a replica that idles while another is fuller, and one that ends far ahead."""
    calls = record_positions(monkeypatch)
    rows, num_replicas = 16, 2
    max_lengths = np.array(shorter + [LONGEST] * 24)  # half of one replica's are shorter
    programs = make_programs(num_replicas)
    batches = make_batches(max_lengths, rows, num_replicas, 3)
    arrived = [index for index, _ in ContinuousBatcher(programs, {}, rows).run(batches)]
    assert sorted(arrived) == list(range(rows * num_replicas))
    assert calls == expected


def test_gather_as_in_its_example():
    """Catches rows of the wrong batch, in numbers that the docstring shows."""
    calls = []
    programs = SimpleNamespace(gather=lambda *args: calls.append(args))
    batcher = ContinuousBatcher(programs, {}, 4)
    one, other = (
        continuous_batching._RunningBatch(
            indices=np.array([indices]),
            bucket=16,
            slots=name,
            positions=np.array([8]),
            cache_length=16,
        )
        for name, indices in (("one", [7, -1, 9, -1]), ("other", [3, -1, -1, 5]))
    )
    assert batcher._gather(one) is one  # 4 is the only batch size
    assert batcher._gather(one, other).indices.tolist() == [[7, 9, 3, 5]]
    ((*slots, rows),) = calls
    assert slots == ["one", "other"] and rows.tolist() == [0, 2, 4, 7]
    assert ContinuousBatcher(programs, {}, 64)._sizes(one) == [8, 24, 48, 64]  # of the other one
