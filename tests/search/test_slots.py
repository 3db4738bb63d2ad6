"""Slots, filled with a fake model: every sentence once, with what a search alone would find."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.fake_model import (
    EOS,
    FakeModel,
    make_limits,
    make_rules,
    run_search,
)
from tests.helpers.rings import others_long
from transformer.data.rows.ragged import Ragged
from transformer.search.corpus_search import CorpusSearch
from transformer.search.options import SearchOptions
from transformer.search.programs import SearchPrograms, make_replicas, max_num_programs
from transformer.search.sampling import Sampling
from transformer.search.slots import NONE, Sentences, advance_slots, start_slots

WIDTH, NBEST, NUM_SENTENCES, EXTRA = 3, 2, 64, 34


class FakeTransformer:
    """What a search asks of a model, by a `FakeModel`: the first token is a sentence's number."""

    def __init__(self, model):
        self.model = model

    def apply(self, variables, *args, method):
        if method == "encode_for_search":
            return jnp.asarray(self.model.start)[args[0][:, 0]]
        if method == "init_cache":
            rows, width, length = args
            return {"state": jnp.zeros((rows, length, width, 8))}
        # A cache by columns, as the real one: each step reads what the ancestor wrote last.
        tokens, cache, positions, column, ancestors, start = args
        written = jnp.take(cache["state"], column - 1, axis=1, mode="wrap")
        before = jnp.where((positions == 0)[:, None, None], start[:, None], written)
        inputs = tokens, before, positions, column, ancestors
        logits, after = self.model.step_fn(*inputs)
        return logits, {"state": cache["state"].at[:, column].set(after)}


MODEL = FakeModel(NUM_SENTENCES)
OPTIONS = SearchOptions(WIDTH, 1.0, "gnmt", EXTRA, nbest=NBEST)


def make_programs(num_replicas=1, options=OPTIONS, model=MODEL):
    devices = jax.local_devices()[:num_replicas]
    if num_replicas > len(devices):
        pytest.skip(f"needs {num_replicas} devices")
    return SearchPrograms(FakeTransformer(model), options.method(), make_replicas(devices))


shared_programs = functools.cache(make_programs)  # so that each shape is compiled once


def search(programs, lengths, batch_size, numbers=None, options=OPTIONS):
    """What `CorpusSearch` yields for sentences of such lengths, numbered from 0."""
    numbers = range(len(lengths)) if numbers is None else numbers
    source = Ragged.from_lists([[n, *[3] * (k - 1)] for n, k in zip(numbers, lengths, strict=True)])
    forced = Ragged.from_lists([[EOS]] * len(lengths))
    return list(CorpusSearch(programs, {}, options, batch_size, 64).run(source, forced))


@pytest.fixture(scope="module")
def alone():
    """The lengths of 47 sentences, and what a search of all of them in one batch finds."""
    lengths = np.random.default_rng(1).integers(1, 17, 47)
    limits = make_limits((lengths + EXTRA).tolist())
    model = FakeModel(NUM_SENTENCES)
    model.start = model.start[:47]
    return lengths, run_search(OPTIONS.method(), model, limits)


def count_programs(programs):
    """The programs that run the model, and those that make its slots."""
    return programs.num_compiled + programs.empty_slots._cache_size()


@pytest.mark.parametrize(
    ("batch_size", "num_replicas"), others_long([(1, 1), (3, 2), (64, 1)], (3, 2))
)
def test_every_sentence_arrives_once_and_as_alone(batch_size, num_replicas, alone):
    """Catches lost, doubled or mixed up sentences in refilled slots, and shapes compiled again."""
    lengths, expected = alone
    programs = shared_programs(num_replicas)
    num_before, events = count_programs(programs), []

    def listen(name, *_, **__):
        events.append(name)

    jax.monitoring.register_event_duration_secs_listener(listen)
    arrived = search(programs, lengths, batch_size)
    jax.monitoring.unregister_event_duration_listener(listen)
    num_compiled = sum("backend_compile" in name for name in events)
    assert num_compiled == count_programs(programs) - num_before
    assert sorted(index for index, _ in arrived) == list(range(len(lengths)))
    for index, (ids, log_probs, scores) in arrived:
        wanted = np.zeros_like(expected.ids[index])
        wanted[:, : ids.shape[1]] = ids[:, : wanted.shape[1]]
        np.testing.assert_array_equal(expected.ids[index], wanted)
        np.testing.assert_allclose(log_probs, expected.log_probs[index], rtol=1e-5)
        np.testing.assert_allclose(scores, expected.scores[index], rtol=1e-5)
    few, many = OPTIONS.first_cache_length(16), OPTIONS.last_cache_length(32)
    assert batch_size < 64 or {ids.shape[1] for _, (ids, *_) in arrived} == {few, many}


def test_empty_slots_are_free():
    """Catches sentences of a queue that are searched once for nobody before their own turn."""
    queue = Sentences(np.arange(2), make_limits([3, 4]), np.zeros((2, 2), np.uint32), None)
    slots = make_programs().empty_slots(queue, 8)
    assert (slots.sentences.limits.max_lengths == 0).all()
    assert (slots.sentences.numbers == NONE).all()


def test_a_corpus_needs_few_programs():
    """Catches programs for every number of sentences: Multi30k's 1,000 need at most 12."""
    lengths = np.repeat([12, 24, 50], [530, 460, 10])
    numbers = np.arange(len(lengths)) % NUM_SENTENCES
    programs = make_programs()
    assert len(search(programs, lengths, 16, numbers)) == len(lengths)
    assert programs.num_compiled <= 12 <= max_num_programs(16, 64, OPTIONS)


@pytest.mark.long
def test_an_endless_model_is_not_tried_with_few_columns(monkeypatch):
    """Catches every sentence searched twice where none ends, as early in training."""
    model = FakeModel(NUM_SENTENCES)
    _, embedding, output = model.weights
    output[:, EOS], embedding[:] = 0, 0
    endless = SearchOptions(1, 0.0, "gnmt", EXTRA, min_length=99)
    programs = make_programs(options=endless)
    calls, advance = [], programs.advance
    programs.advance = lambda *inputs: calls.append(inputs[1].state.ids.shape) or advance(*inputs)
    arrived = search(programs, [16] * 60, 12, options=endless)
    assert len(arrived) == 60
    assert [shape[2] for shape in calls] == [20] * 2 + [66] * 5


def test_slots_as_in_their_example():
    """Catches a sentence that holds its slot for longer than needed, in numbers as documented."""
    seen, max_lengths = [], [2, 3, 1, 9]

    def step_fn(tokens, cache, positions, column, ancestors, encoded):
        jax.debug.callback(lambda *x: seen.append([y.tolist() for y in x]), column, positions)
        return MODEL.step_fn(tokens, encoded[:, None], positions, column, ancestors)[0], cache

    count = len(max_lengths)
    limits = make_limits(max_lengths, [[3] * (n - 1) for n in max_lengths])  # none ends before
    rngs = np.zeros((count, 2), np.uint32)
    queue = Sentences(np.arange(count), limits, rngs, MODEL.start[:count])
    none = jax.tree.map(lambda leaf: np.zeros_like(leaf[:2]), queue)
    none = none._replace(numbers=np.full(2, NONE))
    method = Sampling(make_rules(), temperature=0.0)
    slots = start_slots(method, none, np.zeros(2), 3)
    run = jax.jit(functools.partial(advance_slots, method, step_fn))
    _, results = jax.device_get(run(slots, queue, 2))
    jax.effects_barrier()
    assert results.numbers.tolist() == [0, 2, 1, 3, NONE, NONE]
    assert results.is_complete.tolist() == [True, True, True, False, False, False]
    assert [column for column, _ in seen] == [0, 1, 2, 0, 1, 2]
    assert [positions for _, positions in seen] == [[0, 0], [1, 1], [0, 2], [0, 3], [1, 3], [2, 3]]
    assert (results.hypotheses.ids[:3, 0] == EOS).argmax(1).tolist() == [1, 0, 2]
