"""Embedding and positions against the paper's formulas."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params
from transformer.config import ModelConfig
from transformer.model.embedding import Embedding, make_position_encoding

V, D = 7, 8


def embedding(dtype="float32"):
    module = Embedding(ModelConfig(d_model=D, dtype=dtype), V)
    variables = {"params": random_params(module.init, np.arange(3))}
    return module, variables, np.asarray(variables["params"]["table"])


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
    module = make_position_encoding(ModelConfig(d_model=D, positions=name))
    positions = jnp.array([[0, 1, 0, 1, 2], [0, 1, 2, 47, 0]])
    np.testing.assert_allclose(module.apply({}, positions), expected[positions + first], atol=1e-5)


def test_lookup_without_scale_and_scores_with_a_bias():
    """Catches options that are accepted and not applied."""
    config = ModelConfig(d_model=D, scale_embedding=False, output_bias=True)
    module = Embedding(config, V, has_logits=True)
    params = random_params(module.init, np.arange(3))
    table, bias = params["table"], params["bias"]
    ids = jnp.array([2, 5])
    np.testing.assert_array_equal(module.apply({"params": params}, ids), table[ids])
    logits = module.apply({"params": params}, table[:1], method="logits")
    np.testing.assert_allclose(logits, table[:1] @ table.T + bias, atol=1e-5)


def test_lookup_is_scaled_by_the_root_of_the_width():
    """Catches a missing × √d_model, which leaves the positions louder than the words."""
    module, variables, table = embedding()
    ids = jnp.array([[3, 0], [6, 3]])
    np.testing.assert_allclose(
        module.apply(variables, ids), table[ids] * math.sqrt(D), rtol=1e-6, atol=1e-7
    )


def test_the_table_itself_is_the_softmax_weight():
    """Catches a second table, and the factor √d_model on the way out too."""
    module, variables, table = embedding()
    x = np.random.default_rng(0).normal(size=(2, 3, D)).astype(np.float32)
    logits = module.apply(variables, x, method="logits")
    np.testing.assert_allclose(logits, x @ table.T, atol=1e-5)
    assert jax.tree.map(jnp.shape, variables) == {"params": {"table": (V, D)}}


def test_logits_are_float32_whatever_the_computation():
    """Catches a softmax over bfloat16 scores, whose 8 bits blur the loss."""
    module, variables, _ = embedding("bfloat16")
    x = module.apply(variables, jnp.arange(3))
    assert x.dtype == jnp.bfloat16
    assert module.apply(variables, x, method="logits").dtype == jnp.float32


def test_the_gradients_of_a_frequent_token_are_added_in_float32():
    """Catches a sum in bfloat16, which stays at 256 however often a token occurs."""
    module, variables, _ = embedding("bfloat16")
    ids = np.full(4096, 3, np.int32)
    total = jax.grad(lambda v: module.apply(v, ids).astype(jnp.float32).sum())(variables)
    np.testing.assert_allclose(total["params"]["table"][3], 4096 * D**0.5, rtol=1e-2)


def test_learned_positions_beyond_the_last_share_it():
    """Catches NaN from an index out of bounds, which jax gives without a word."""
    config = ModelConfig(d_model=D, positions="learned", max_positions=4)
    module = make_position_encoding(config)
    params = random_params(module.init, np.arange(4))
    table = np.asarray(params["table"])
    assert table.shape == (4, D)
    looked_up = module.apply({"params": params}, jnp.array([0, 3, 4, 99]))
    np.testing.assert_array_equal(looked_up, table[[0, 3, 3, 3]])
