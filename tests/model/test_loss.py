"""The loss against label smoothing written out with one-hot targets."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, tiny_model
from transformer.model.loss import cross_entropy, make_loss_fn

B, T, V = 3, 4, 7


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(B, T, V))).astype(np.float32)
    weights = rng.integers(0, 3, (B, T)).astype(np.float32)
    return logits, rng.integers(0, V, (B, T)), weights


def explicit(logits, targets, weights, smoothing):
    """The value of -Σ q log p with q = (1-ε)·one_hot + ε/V, all in full size, and its gradient."""
    wanted = (1 - smoothing) * np.eye(V)[targets] + smoothing / V
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    value = -((wanted * np.log(p)).sum(-1) * weights).sum()
    return value, (p - wanted) * weights[..., None]


@pytest.mark.parametrize(("index", "given", "smoothing"), [(0, 0, 0), (0, 0.1, 0.1), (1, 0.1, 0)])
def test_value_and_gradient_equal_the_explicit_formula(arrays, index, given, smoothing):
    """Catches ε spread over V-1 tokens, a gradient without it, ignored weights, a smoothed NLL."""
    assert (arrays[2] == 0).any()  # padding, which has no gradient
    run = jax.jit(jax.value_and_grad(lambda *arrays: cross_entropy(*arrays, given)[index]))
    for ours, expected in zip(run(*arrays), explicit(*arrays, smoothing), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


def test_parts_of_a_batch_add_up(arrays):
    """Catches a mean of means, which depends on how the batch is split."""
    run = jax.jit(partial(cross_entropy, label_smoothing=0.1))
    whole = run(*arrays)
    parts = [run(*(x[rows] for x in arrays)) for rows in (slice(1), slice(1, 3))]
    for total, first, second in zip(whole, *parts, strict=True):
        np.testing.assert_allclose(total, first + second, rtol=1e-6)


def test_evaluation_has_no_dropout():
    """Catches a validation loss that is measured with dropout on."""
    batch = make_batch([[((5, 6, 2), (7, 8, 2))]], 4, 4)
    with_dropout, without = (tiny_model(num_layers=1, dropout_rate=rate) for rate in (0.5, 0.0))
    params = random_params(without.init, batch, deterministic=True)
    losses = [make_loss_fn(model, 0.1)(params, batch, None)[0] for model in (with_dropout, without)]
    assert losses[0] == losses[1]


def test_large_logits_stay_finite():
    """Catches exp without the maximum taken off first."""
    logits = jnp.array([[[1e4, 0.0, -1e4]]])
    loss_fn = lambda x: cross_entropy(x, jnp.array([[1]]), jnp.ones((1, 1)), 0.1)[0]  # noqa: E731
    value, gradient = jax.jit(jax.value_and_grad(loss_fn))(logits)
    assert np.isfinite(value) and np.isfinite(gradient).all()
