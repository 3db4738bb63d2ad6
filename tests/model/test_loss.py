"""The loss against label smoothing written out with one-hot targets."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, tiny_model
from transformer.model.loss import cross_entropy, make_loss_fn

B, T, V = 3, 4, 7


@pytest.mark.parametrize(("index", "given", "smoothing"), [(0, 0, 0), (0, 0.1, 0.1), (1, 0.1, 0)])
def test_value_and_gradient_equal_the_explicit_formula(index, given, smoothing):
    """Catches ε spread over V-1 tokens, a gradient without it, ignored weights, a smoothed NLL."""
    rng = np.random.default_rng(0)
    logits = (3 * rng.normal(size=(B, T, V))).astype(np.float32)
    weights = rng.integers(0, 3, (B, T)).astype(np.float32)
    assert (weights == 0).any()  # padding, which has no gradient
    targets = rng.integers(0, V, (B, T))
    arrays = logits, targets, weights
    wanted = (1 - smoothing) * np.eye(V)[targets] + smoothing / V
    p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    value = -((wanted * np.log(p)).sum(-1) * weights).sum()
    assert cross_entropy(*arrays, given)[2] == weights.sum()
    run = jax.jit(jax.value_and_grad(lambda *arrays: cross_entropy(*arrays, given)[index]))
    expected = value, (p - wanted) * weights[..., None]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6), run(*arrays), expected)


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
