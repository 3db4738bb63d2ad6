"""The loss against label smoothing written out with one-hot targets."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, tiny_model
from transformer.model.loss import cross_entropy, make_loss_fn

B, T, V = 3, 4, 7


@pytest.mark.parametrize(("index", "given", "smoothing"), [(0, 0, 0), (0, 0.1, 0.1), (1, 0.1, 0)])
def test_value_and_gradient_equal_the_explicit_formula(index, given, smoothing):
    """Catches ε spread over V-1 tokens, ignored weights, and exp of large logits."""
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
    close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6)
    jax.tree.map(close, run(*arrays), expected)
    assert all(np.isfinite(x).all() for x in run(1e4 * logits, targets, weights))


def test_evaluation_has_no_dropout():
    """Catches a validation loss that is measured with dropout on."""
    batch = make_batch([[((5, 6, 2), (7, 8, 2))]], 4, 4)
    with_dropout, without = (tiny_model(num_layers=1, dropout_rate=rate) for rate in (0.5, 0.0))
    params = random_params(without.init, batch, deterministic=True)
    losses = [make_loss_fn(model, 0.1)(params, batch, None)[0] for model in (with_dropout, without)]
    assert losses[0] == losses[1]
