"""Sub-layers by hand formula in numpy, and another block in a model's stead."""

import math

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.model.layers import ACTIVATIONS, FeedForward, Residual
from transformer.model.primitives import make_layer_norm

B, T, D = 2, 4, 16


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_spares_the_residual_path(norm):
    """Catches dropout of the sum: with everything else dropped, x itself must remain."""
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype(np.float32)
    residual = Residual(tiny_config(norm=norm, dropout_rate=0.999))
    rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    inputs = dict(sublayer=lambda y: 1000 + 0 * y, deterministic=False)
    ours = jax.jit(lambda rngs: residual.init_with_output(rngs, x, **inputs)[0])(rngs)
    if norm == "post":
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)
    assert np.isclose(ours, x, atol=1e-5).mean() > 0.7


def test_activations_by_hand():
    """Catches the tanh approximation under the name of the exact GELU, 7e-4 beside it."""
    x = np.linspace(-4, 4, 33)
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    expected = {
        "relu": np.maximum(x, 0),
        "swish": x * sigmoid(x),
        "gelu": x * [(1 + math.erf(v / math.sqrt(2))) / 2 for v in x],
        "gelu_tanh": x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)),
        "gelu_sigmoid": x * sigmoid(1.702 * x),
    }
    assert expected.keys() == ACTIVATIONS.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(ACTIVATIONS[name](x), values, atol=2e-6, err_msg=name)


def test_rms_norm_by_hand():
    """Catches a mean that is subtracted, an ε outside the root, and a shift."""
    x = 3 + np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
    module = make_layer_norm(tiny_config(norm_type="rms_norm", norm_epsilon=0.5))
    params = random_params(module.init, x)
    assert params.keys() == {"scale"}
    expected = x / np.sqrt((x**2).mean(-1, keepdims=True) + 0.5) * params["scale"]
    np.testing.assert_allclose(module.apply({"params": params}, x), expected, rtol=1e-5)


def test_gated_feed_forward_by_hand():
    """Catches a missing bias or activation, one of the wrong factor, and a sum of the factors."""
    x = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
    module = FeedForward(tiny_config(feed_forward="gated", activation="swish"))
    params = random_params(module.init, x)
    inner, gate = (x @ params[n]["kernel"] + params[n]["bias"] for n in ("inner", "gate"))
    hidden = np.array(ACTIVATIONS["swish"](gate)) * inner
    expected = hidden @ params["outer"]["kernel"] + params["outer"]["bias"]
    ours = jax.jit(module.apply)({"params": params}, x)
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)
