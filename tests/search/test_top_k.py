"""The k best by blocks against a sort of everything: ties, sizes without a divisor, -inf."""

import jax
import numpy as np
import pytest

from transformer.search.top_k import first_largest, log_sum_exp, top_continuations

SIZES = 3, 65, 127, 256  # fewer than k, several blocks, a last block that is not full, a TPU's


def make_scores(*shape):
    """Quarters, so that there are ties and every sum is exact."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=shape) * 4).round().astype(np.float32) / 4


@pytest.mark.parametrize("vocab_size", SIZES)
def test_top_finds_what_a_sort_finds(vocab_size):
    """Catches a block whose best is overlooked, padding that is chosen, and ties in any order."""
    logits, totals = make_scores(5, 4, vocab_size), make_scores(5, 4)
    totals[0, 1:] = -np.inf  # as at the first step: one hypothesis is live
    values, beams, tokens = jax.jit(top_continuations, static_argnums=2)(logits, totals, 8)
    scores = (logits + totals[..., None]).reshape(5, -1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :8]
    expected = np.take_along_axis(scores, order, 1)
    np.testing.assert_array_equal(values, expected)
    found = np.where(np.isfinite(expected), beams * vocab_size + tokens, -1)
    np.testing.assert_array_equal(found, np.where(np.isfinite(expected), order, -1))


@pytest.mark.parametrize("vocab_size", SIZES)
def test_argmax_and_log_sum_exp_are_exact(vocab_size):
    """Catches a tie that the later one wins, padding that counts, overflow, and excluded tokens."""
    scores = make_scores(4, 3, vocab_size) + np.float32(500)
    scores[0, :, :-1] = -np.inf
    scores[1] = 498.5  # all alike
    np.testing.assert_array_equal(jax.jit(first_largest)(scores), scores.argmax(-1))
    exact = np.log(np.exp(scores.astype(np.float64) - 500).sum(-1)) + 500
    np.testing.assert_allclose(jax.jit(log_sum_exp)(scores), exact, rtol=1e-6)
