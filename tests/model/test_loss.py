"""The loss against label smoothing written out with one-hot targets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer.model.loss import cross_entropy

B, T, V = 3, 4, 7


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(B, T, V))).astype(np.float32)
    weights = rng.integers(0, 3, (B, T)).astype(np.float32)
    return logits, rng.integers(0, V, (B, T)), weights


def explicit(logits, targets, weights, smoothing):
    """-Σ q log p with q = (1-ε)·one_hot + ε/V, all in full size."""
    wanted = (1 - smoothing) * jax.nn.one_hot(targets, V) + smoothing / V
    return -((wanted * jax.nn.log_softmax(logits)).sum(-1) * weights).sum()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradient_equal_the_explicit_formula(arrays, smoothing):
    """Catches ε spread over V-1 pieces, a gradient without the smoothing, and ignored weights."""
    ours = jax.value_and_grad(lambda x, *rest: cross_entropy(x, *rest, smoothing)[0])(*arrays)
    expected = jax.value_and_grad(explicit)(*arrays, smoothing)
    np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(ours[1], expected[1], atol=1e-6)


def test_nll_is_unsmoothed_in_value_and_gradient(arrays):
    """Catches a perplexity that is reported from the smoothed loss."""
    logits, targets, weights = arrays
    ours = jax.value_and_grad(lambda x: cross_entropy(x, targets, weights, 0.1)[1])(logits)
    expected = jax.value_and_grad(explicit)(logits, targets, weights, 0.0)
    np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)
    np.testing.assert_allclose(ours[1], expected[1], atol=1e-6)


def test_parts_of_a_batch_add_up(arrays):
    """Catches a mean of means, which depends on how the batch is split."""
    whole = cross_entropy(*arrays, 0.1)
    parts = [cross_entropy(*(x[rows] for x in arrays), 0.1) for rows in (slice(1), slice(1, 3))]
    for total, first, second in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(total, first + second, rtol=1e-6)


def test_padding_has_no_gradient(arrays):
    """Catches padding that pulls at the model, whatever stands there."""
    logits, targets, weights = arrays
    weights[0] = 0
    gradient = jax.grad(lambda x: cross_entropy(x, targets, weights, 0.1)[0])(logits)
    assert (gradient[0] == 0).all() and jnp.abs(gradient[1:]).sum() > 0


def test_large_logits_stay_finite():
    """Catches exp without the maximum taken off first."""
    logits = jnp.array([[[1e4, 0.0, -1e4]]])
    value, gradient = jax.value_and_grad(
        lambda x: cross_entropy(x, jnp.array([[1]]), jnp.ones((1, 1)), 0.1)[0]
    )(logits)
    assert np.isfinite(value) and np.isfinite(gradient).all()
