"""Search on small fake models, against enumeration, hand-made tables and plain Python."""

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


def reference_beam_search(model, sentence, longest, width, kind, alpha, given):
    """(score, ids) of the best by the same definition in plain Python, which never stops early."""
    live, finished, given_log_prob = [given], [], model.log_prob(sentence, given)
    for length in range(len(given) + 1, longest + 1):
        tokens = range(V) if length < longest else [EOS]
        candidates = [(*ids, token) for ids in live for token in tokens]
        log_probs = {ids: model.log_prob(sentence, ids) - given_log_prob for ids in candidates}
        best = sorted(candidates, key=log_probs.get, reverse=True)[: 2 * width]
        penalty = ((5 + length) / 6) ** alpha if kind == "gnmt" else length**alpha
        finished += [(log_probs[ids] / penalty, ids) for ids in best if ids[-1] == EOS]
        live = [ids for ids in best if ids[-1] != EOS][:width]
    return sorted(finished, reverse=True)[:width]


@pytest.mark.parametrize(
    "seed, lengths, width, kind, alpha, given",
    [
        *((seed, LENGTHS, WIDTH, "gnmt", ALPHA, ()) for seed in range(3)),
        (0, (4, 2), 27, "gnmt", 0.6, ()),  # this wide, it never has to prune
        (0, (4, 2), 27, "power", 1.0, ()),
        (0, (4, 2), 27, "power", 1.0, (3,)),  # a language, which does not count
    ],
)
def test_beam_search_equals_plain_python(seed, lengths, width, kind, alpha, given):
    """Catches a wrong score, penalty, order or pruning, and an early stop that is too early."""
    model = FakeModel(len(lengths), seed=seed)
    rules = dict(kind=kind, alpha=alpha, num_unscored=len(given))
    prefixes = [given for _ in lengths]
    stops_early, runs_on = (
        run_beam(model, lengths, width, nbest, prefixes, **rules) for nbest in (1, width)
    )
    for sentence, longest in enumerate(lengths):
        expected = reference_beam_search(model, sentence, longest, width, kind, alpha, given)
        scores, ids = zip(*expected, strict=True)
        found_ids, found_scores = zip(*hypotheses(runs_on, sentence), strict=True)
        assert found_ids == ids and hypotheses(stops_early, sentence)[0][0] == ids[0]
        np.testing.assert_allclose(found_scores, scores, rtol=1e-5)


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
