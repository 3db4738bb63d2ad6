"""Greedy search and sampling: choices, ends, truncation, frequencies."""

from functools import partial

import jax
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
)
from transformer.search.sampling import Sampling, truncate


def run_sample(model, lengths, seeds, num_samples=1, **options):
    method = Sampling(make_rules(), num_samples, **options)
    rngs = np.array([[0, seed] for seed in seeds], np.uint32)  # as jax.random.PRNGKey makes them
    return run_search(method, model, make_limits(lengths), rngs)


def run_greedy(model, lengths, given=()):
    method = Sampling(make_rules(num_unscored=len(given)), temperature=0.0)
    return run_search(method, model, make_limits(lengths, [given] * len(lengths)))


@pytest.mark.parametrize("given", [(), (3,)])
def test_greedy_is_the_argmax_until_eos_or_the_last_position(given):
    """Catches a search over its limit, mixed up sentences, scores of other ids or of given ones."""
    lengths = (9, 1 + len(given), 4)
    model = FakeModel(3)
    found = run_greedy(model, lengths, given)
    for sentence, longest in enumerate(lengths):
        expected = given
        while EOS not in expected:
            is_last = len(expected) + 1 == longest
            expected += (EOS if is_last else int(model.logits(sentence, expected).argmax()),)
        ((ids, score),) = hypotheses(found, sentence)
        assert ids == expected
        log_prob = model.log_prob(sentence, ids) - model.log_prob(sentence, given)
        np.testing.assert_allclose(found.log_probs[sentence, 0], log_prob, rtol=1e-5)
        np.testing.assert_allclose(score, log_prob / ((5 + len(ids)) / 6) ** 0.6, rtol=1e-5)


@pytest.mark.parametrize(
    "options", [dict(temperature=1e-4), dict(top_k=1), dict(top_p=1e-6)], ids=str
)
def test_no_randomness_is_left_at_the_limits(options):
    """Catches a temperature that multiplies, and truncation that keeps one token too many."""
    model = FakeModel(3)
    sampled = run_sample(model, [9, 1, 4], [0, 1, 2], **options)
    greedy = run_greedy(model, [9, 1, 4])
    np.testing.assert_array_equal(sampled.ids, greedy.ids)
    np.testing.assert_allclose(sampled.scores, greedy.scores, rtol=1e-5)


@pytest.mark.parametrize(
    "options, kept",
    [
        (dict(top_p=0.45), "...x"),
        (dict(top_p=0.7), "x..x"),
        (dict(top_p=0.85), "xx.x"),
        (dict(top_p=1.0), "xxxx"),
        (dict(top_k=3), "xx.x"),
        (dict(top_k=9), "xxxx"),
        (dict(top_k=2, top_p=0.6), "...x"),  # of the two best, the first has 0.625 of the mass
    ],
    ids=str,
)
def test_truncation_keeps_the_fewest_that_reach_the_mass(options, kept):
    """Catches a nucleus without the token that crosses p, and unsorted probabilities."""
    logits = jax.jit(partial(truncate, **options))(
        np.log(np.array([0.3, 0.15, 0.05, 0.5], np.float32))
    )
    assert "".join("x" if keep else "." for keep in logits > -np.inf) == kept


def test_frequencies_are_the_probabilities():
    """Catches samples that share a key, a wrong temperature, and log_probs after truncation."""
    model, count = FakeModel(2), 4000
    found = run_sample(model, [2, 2], [0, 1], count, temperature=2.0)
    for sentence in range(2):
        exps = np.exp(model.logits(sentence, ()) / 2.0)
        probabilities = exps / exps.sum()
        seen = np.bincount(found.ids[sentence, :, 0], minlength=V)
        deviation = np.sqrt(count * probabilities * (1 - probabilities))
        assert (np.abs(seen - count * probabilities) < 4.5 * deviation).all()
        ids, _ = hypotheses(found, sentence)[0]
        log_prob = model.log_prob(sentence, ids)
        np.testing.assert_allclose(found.log_probs[sentence, 0], log_prob, rtol=1e-5)


def test_each_step_draws_anew():
    """Catches one key for all positions: of equally probable tokens a sample would repeat one."""
    found = run_sample(TableModel(np.full((V, V), 1 / V)), [9], [0], 8)
    assert any(len({*ids[:-1]}) > 1 for ids, _ in hypotheses(found, 0))


def test_samples_do_not_depend_on_neighbours_but_on_their_key():
    """Catches one key for the whole batch: a sentence's samples would change with its row."""
    model = FakeModel(3)
    first = run_sample(model, [9, 6, 4], [5, 6, 7], 8)
    model.start = model.start[[2, 0, 0]]
    second = run_sample(model, [4, 9, 9], [7, 5, 8], 8)
    assert hypotheses(first, 2) == hypotheses(second, 0)
    assert hypotheses(first, 0) == hypotheses(second, 1) != hypotheses(second, 2)
    assert len({ids for ids, _ in hypotheses(first, 0)}) > 1
