"""Search on small fake models, against enumeration, hand-made tables and plain Python."""

import itertools
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.fake_model import (
    EOS,
    FakeModel,
    TableModel,
    V,
    hypotheses,
    make_limits,
    make_rules,
    run_search,
    trim,
)
from transformer.search.beam_search import BeamSearch
from transformer.search.sampling import Sampling
from transformer.search.slots import search_to_end

# Tests search with equal shapes and rules where they can: those share one compiled program.
LENGTHS, WIDTH, ALPHA = (9, 4, 7), 3, 1.5


def run_beam(model, lengths, width, nbest=1, prefixes=(), **rules):
    method = BeamSearch(make_rules(**rules), width, nbest)
    return run_search(method, model, make_limits(lengths, prefixes))


def search(method, step_fn, length):
    """A search of one sentence over a function that needs no cache."""
    cache = jnp.zeros((1, method.width))
    run = jax.jit(lambda: search_to_end(method, step_fn, make_limits([length]), cache))
    return jax.device_get(run())


@pytest.mark.parametrize(
    "kind, alpha, given", [("gnmt", 0.6, ()), ("power", 1.0, ()), ("power", 1.0, (3,))]
)
def test_wide_beam_equals_enumeration(kind, alpha, given):
    """Catches any wrong score, order, penalty or lost hypothesis; the beam never has to prune."""
    lengths = (4, 2)
    model = FakeModel(2)
    rules = dict(kind=kind, alpha=alpha, num_unscored=len(given))
    found = run_beam(model, lengths, 27, 27, prefixes=[given, given], **rules)
    for sentence, longest in enumerate(lengths):
        everything, others = {}, {*range(V)} - {EOS}
        for length in range(len(given), longest):
            for body in itertools.product(others, repeat=length - len(given)):
                ids = (*given, *body, EOS)
                penalty = ((5 + len(ids)) / 6) ** alpha if kind == "gnmt" else len(ids) ** alpha
                log_prob = model.log_prob(sentence, ids) - model.log_prob(sentence, given)
                everything[ids] = log_prob / penalty
        best = sorted(everything, key=everything.get, reverse=True)[:27]
        ours, scores = zip(*hypotheses(found, sentence), strict=True)
        assert list(ours) == best
        np.testing.assert_allclose(scores, [everything[ids] for ids in best], rtol=1e-5)


def reference_beam_search(model, sentence, longest, beam_size, alpha):
    """The same definition in plain Python, which never stops early."""
    live, finished = [(0.0, ())], []
    for length in range(1, longest + 1):
        tokens = range(V) if length < longest else [EOS]
        candidates = [(*ids, token) for _, ids in live for token in tokens]
        scored = sorted(((model.log_prob(sentence, c), c) for c in candidates), reverse=True)
        scored = scored[: 2 * beam_size]
        penalty = ((5 + length) / 6) ** alpha
        finished += [(log_prob / penalty, c) for log_prob, c in scored if c[-1] == EOS]
        live = [(log_prob, c) for log_prob, c in scored if c[-1] != EOS][:beam_size]
    return [ids for _, ids in sorted(finished, reverse=True)[:beam_size]]


@pytest.mark.parametrize("seed", range(3))
def test_narrow_beam_equals_plain_python_however_early_it_stops(seed):
    """Catches an early stop that is too early, and pruning or reordering that goes wrong."""
    model = FakeModel(3, seed=seed)
    stops_early = run_beam(model, LENGTHS, WIDTH, alpha=ALPHA)
    runs_on = run_beam(model, LENGTHS, WIDTH, WIDTH, alpha=ALPHA)
    for sentence, longest in enumerate(LENGTHS):
        expected = reference_beam_search(model, sentence, longest, WIDTH, ALPHA)
        assert [ids for ids, _ in hypotheses(runs_on, sentence)] == expected
        assert hypotheses(stops_early, sentence)[0][0] == expected[0]


def test_search_ends_as_soon_as_the_best_is_known():
    """Catches a search that always runs to the longest length, for nothing."""
    steps = []

    def step_fn(tokens, cache, positions, column, *_):
        jax.debug.callback(lambda p: steps.append(int(p)), column)
        return jnp.broadcast_to(jnp.array([0.0, 0.0, 9.0, 0.0]), (*tokens.shape, V)), cache

    found = search(BeamSearch(make_rules(), 2), step_fn, 50)
    jax.effects_barrier()
    assert trim(found.ids[0, 0]) == (EOS,) and max(steps) < 5


def test_search_runs_on_while_a_longer_hypothesis_can_win():
    """Catches a bound by the present length: the ninth token decides, unless it stops early."""
    first, middle, last = (
        jnp.log(jnp.array(row) + 1e-9) for row in ((0.3, 0, 0.7, 0), (1, 0, 1e-6, 0), (0, 0, 1, 0))
    )

    def step_fn(tokens, cache, positions, column, *_):
        logits = jnp.where(column == 0, first, jnp.where(column < 8, middle, last))
        return jnp.broadcast_to(logits, (*tokens.shape, V)), cache

    # log 0.7 / 1 = -0.36; log 0.3 / 9 = -0.13
    rules = make_rules(kind="power", alpha=1.0)
    found = search(BeamSearch(rules, 2), step_fn, 9)
    assert trim(found.ids[0, 0]) == (*[0] * 8, EOS)
    found = search(BeamSearch(rules, 2, early_stopping=True), step_fn, 9)
    assert trim(found.ids[0, 0]) == (EOS,)


def longest_sort(run, *arguments):
    """The largest length that a compiled function sorts, read from its HLO text, or 0."""
    text = jax.jit(run).lower(*arguments).compile().as_text()
    lines = "".join(line for line in text.split("\n") if re.search(r"\bsort\(", line))
    return max(map(int, re.findall(r"\[(?:\d+,)*(\d+)\]", lines)), default=0)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="is about the CPU's compiler")
def test_no_step_sorts_the_vocabulary(compiles_as_usual):
    """Catches XLA's CPU backend turning the top-k into a full sort, most of a search's time."""
    model, method = FakeModel(2, vocab_size=300), BeamSearch(make_rules(), 4)
    run = partial(search_to_end, method, model.step_fn, make_limits([5, 7]))
    assert longest_sort(jnp.sort, jnp.zeros((2, 300))) == 300 > longest_sort(run, model.cache(4))


def test_early_stopping_ends_for_good():
    """Catches a translation that changes because a neighbour in the batch is searched on."""
    model, rules = FakeModel(4), make_rules(kind="power", alpha=3.0)
    method = BeamSearch(rules, 3, early_stopping=True)
    together = run_search(method, model, make_limits([14] * 4))
    for row in range(4):
        max_lengths = [14 if i == row else 0 for i in range(4)]
        alone = run_search(method, model, make_limits(max_lengths))
        assert hypotheses(together, row) == hypotheses(alone, row)


def test_prefixes_are_kept_and_their_scores_counted():
    """Catches a prefix that is off by one position, forced upon neighbours, or scored as free."""
    model, prefix = FakeModel(3), (3, 0, 3)
    found = run_beam(model, LENGTHS, WIDTH, WIDTH, prefixes=[prefix], alpha=ALPHA)
    for ids, _ in hypotheses(found, 0):
        assert ids[:3] == prefix
    (ids, _), log_prob = hypotheses(found, 0)[0], found.log_probs[0, 0]
    np.testing.assert_allclose(log_prob, model.log_prob(0, ids), rtol=1e-5)
    free = run_beam(model, LENGTHS, WIDTH, WIDTH, alpha=ALPHA)
    assert hypotheses(found, 1) == hypotheses(free, 1)


def test_a_model_that_wants_to_end_does_so_at_the_min_length():
    """Catches an end that is forbidden, or allowed, at one position too many."""
    table = np.zeros((V, V))
    table[:, EOS], table[:, 0] = 0.9, 0.1
    method = Sampling(make_rules(min_length=5), temperature=0.0)
    found = run_search(method, TableModel(table), make_limits([9]))
    assert trim(found.ids[0, 0]) == (0, 0, 0, 0, EOS)
