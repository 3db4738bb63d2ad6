"""Embedding and positions against the paper's formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params
from transformer.config import ModelConfig
from transformer.model.embedding import Embedding
from transformer.registry import POSITION_ENCODINGS

V, D = 7, 8


@pytest.mark.parametrize(
    ("name", "last", "first"),
    [
        ("sinusoidal", D // 2, 0),
        ("sinusoidal_tensor2tensor", D // 2 - 1, 0),
        ("sinusoidal_fairseq", D // 2 - 1, 2),
    ],
)
def test_sinusoids_are_the_papers_or_those_of_other_systems(name, last, first):
    """Catches sines and cosines in two halves, a wrong exponent, and positions of the row."""
    expected = np.zeros((50, D))
    for pos in range(50):
        for i in range(D // 2):
            angle = pos / 10_000 ** (i / last)
            expected[pos, 2 * i : 2 * i + 2] = math.sin(angle), math.cos(angle)
    module = POSITION_ENCODINGS[name](ModelConfig(d_model=D, positions=name))
    positions = jnp.array([[0, 1, 0, 1, 2], [0, 1, 2, 47, 0]])
    np.testing.assert_allclose(module.apply({}, positions), expected[positions + first], atol=1e-5)


@pytest.mark.parametrize("plain", [True, False])
def test_lookup_and_scores(plain):
    """Catches a missing × √d_model, or one on the way out, and options without effect."""
    options = {} if plain else dict(scale_embedding=False, output_bias=True)
    module = Embedding(ModelConfig(d_model=D, **options), V, has_logits=True)
    params = random_params(module.init, np.arange(3))
    assert params.keys() == {"table"} if plain else {"table", "bias"}
    table, ids = params["table"], jnp.array([[3, 0], [6, 3]])
    vectors = module.apply({"params": params}, ids)
    np.testing.assert_allclose(vectors, table[ids] * (math.sqrt(D) if plain else 1), rtol=1e-6)
    logits = module.apply({"params": params}, table[:1], method="logits")
    np.testing.assert_allclose(logits, table[:1] @ table.T + params.get("bias", 0), atol=1e-5)


def test_sums_of_bfloat16_are_float32():
    """Catches a softmax over rounded scores, and gradients of a frequent token that end at 256."""
    module = Embedding(ModelConfig(d_model=D, dtype="bfloat16"), V)
    variables, ids = {"params": random_params(module.init, np.arange(3))}, np.full(4096, 3)
    x = module.apply(variables, jnp.arange(3))
    assert x.dtype == jnp.bfloat16
    assert module.apply(variables, x, method="logits").dtype == jnp.float32
    total = jax.grad(lambda v: module.apply(v, ids).astype(jnp.float32).sum())(variables)
    np.testing.assert_allclose(total["params"]["table"][3], 4096 * D**0.5, rtol=1e-2)


def test_learned_positions_beyond_the_last_share_it():
    """Catches NaN from an index out of bounds, which jax gives without a word."""
    config = ModelConfig(d_model=D, positions="learned", max_positions=4)
    module = POSITION_ENCODINGS[config.positions](config)
    params = random_params(module.init, np.arange(4))
    table = np.asarray(params["table"])
    assert table.shape == (4, D)
    looked_up = module.apply({"params": params}, jnp.array([0, 3, 4, 99]))
    np.testing.assert_array_equal(looked_up, table[[0, 3, 3, 3]])
