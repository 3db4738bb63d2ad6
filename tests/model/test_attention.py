"""Attention against plain formulas, its masks and its dropout."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.process_state import own_names
from tests.helpers.tiny_models import random_params
from transformer.config import ModelConfig
from transformer.model.attention import ATTENTION_FUNCTIONS, MultiHeadAttention, to_cache_layout
from transformer.model.primitives import Dropout
from transformer.model.sparse_attention import PATTERNS
from transformer.registry import register_attention

B, T, S, N, H, D = 2, 3, 5, 2, 4, 6


def softmax(x):
    exp = np.exp(x - x.max(-1, keepdims=True))
    return exp / exp.sum(-1, keepdims=True)


def by_hand(query, key, value, mask):
    """softmax(QKᵀ/√d_k)V, a head at a time."""
    out = np.zeros((*query.shape[:3], value.shape[-1]), np.float32)
    for b in range(len(query)):
        for n in range(query.shape[2]):
            logits = query[b, :, n] @ key[b, :, n].T / np.sqrt(query.shape[-1])
            out[b, :, n] = softmax(np.where(mask[b, 0], logits, -np.inf)) @ value[b, :, n]
    return out


def multi_head(**changes):
    x = np.random.default_rng(1).normal(size=(B, S, D)).astype(np.float32)
    config = ModelConfig(d_model=D, num_heads=N, head_dim=H, **changes)
    module = MultiHeadAttention(config, config.attention)

    def attend(module, mask=None, deterministic=True):
        keys_values = module.project_keys_values(x)
        return module(x[:, :T], keys_values, mask=mask, deterministic=deterministic)

    params = random_params(module.init, method=attend)

    def run(mutable=False, rngs=None, **inputs):
        inputs |= dict(method=attend, mutable=mutable)
        return jax.jit(lambda rngs: module.apply({"params": params}, rngs=rngs, **inputs))(rngs)

    return run, params, x


@pytest.mark.parametrize(
    ("result", "found"), [(lambda value: value[:, :-1], r"\(2, \d+, 2, \d+\)"), (id, "int")]
)
def test_an_own_function_returns_a_value_for_each_query(result, found):
    """Catches an error about broadcasting, far from the function that is wrong."""
    with own_names():
        register_attention("own", lambda query, key, value, mask=None, dropout=None: result(value))
        with pytest.raises(ValueError, match=rf"attention=own must return .*, not {found}\."):
            multi_head(attention="own")


def test_heads_are_projected_split_and_joined_in_one_order():
    """Catches a reshape that mixes heads with their entries, which trains but is another model."""
    attend, params, x = multi_head()
    mask = np.ones((B, 1, T, S), bool)
    heads = [
        (y @ params[name]["kernel"]).reshape(B, -1, N, H)
        for name, y in (("query", x[:, :T]), ("key", x), ("value", x))
    ]
    expected = by_hand(*heads, mask).reshape(B, T, N * H) @ params["output"]["kernel"]
    np.testing.assert_allclose(attend(), expected, atol=1e-5)


@pytest.mark.parametrize("name", sorted(set(ATTENTION_FUNCTIONS) - set(PATTERNS)))
def test_attention_to_a_cache_is_attention_to_its_keys_and_values(name):
    """Catches another scale, mask or function at search time than in training."""
    config = ModelConfig(d_model=D, num_heads=N, head_dim=H, attention=name)
    module = MultiHeadAttention(config, name)
    x = np.random.default_rng(1).normal(size=(B, S, D)).astype(np.float32)
    mask = np.tril(np.ones((S, S), bool))[None, None]

    def both(module):
        keys_values = module.project_keys_values(x)
        full = module(x, keys_values, mask=mask, deterministic=True)
        return full, module.attend_to_cache(x, to_cache_layout(*keys_values), mask=mask)

    variables = {"params": random_params(module.init, method=both)}
    full, cached = jax.jit(partial(module.apply, method=both))(variables)
    np.testing.assert_allclose(cached, full, atol=1e-5)


def test_sown_weights_are_the_attention_weights():
    """Catches pictures of something else: weights must sum to 1 and be 0 where masked."""
    attend, _, _ = multi_head()
    mask = np.tril(np.ones((T, S), bool))[None, None]
    _, sown = attend(mutable="intermediates", mask=mask)
    (weights,) = sown["intermediates"]["weights"]
    assert weights.shape == (B, T, N, S)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-6)
    assert (np.asarray(weights).transpose(0, 2, 1, 3)[:, :, ~mask[0, 0]] == 0).all()


def test_dropout_keeps_rate_and_expectation():
    """Catches a rate that is inverted, and survivors that are not scaled up."""
    x = np.ones(100_000, np.float32)
    apply = jax.jit(partial(Dropout(0.3).apply, {}, deterministic=False))
    dropped = np.asarray(apply(x, rngs={"dropout": jax.random.key(0)}))
    assert abs((dropped == 0).mean() - 0.3) < 0.01
    assert abs(dropped.mean() - 1) < 0.01
    np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.7, rtol=1e-6)
    assert (Dropout(0.3).apply({}, x, deterministic=True) == x).all()


def test_dropout_of_neighbours_steps_and_layers_is_independent():
    """Catches a hash that is too weak: stripes, or masks that are shifts or copies of others."""
    shape = (4, 64, 32, 64)
    apply = jax.jit(partial(Dropout(0.5).apply, {}, deterministic=False))

    def kept(seed):
        x = np.ones(shape, np.float32)
        key = jax.random.fold_in(jax.random.PRNGKey(0), seed)
        return np.asarray(apply(x, rngs={"dropout": key})) > 0

    first = kept(0)
    pairs = [(first, kept(seed)) for seed in range(1, 6)]
    flat = first.ravel()
    pairs += [(flat[n:], flat[:-n]) for n in (1, 2, 3, 4, 8, 64, 2048, 65_536)]
    for a, b in pairs:
        agreement = (a == b).mean()
        assert abs(agreement - 0.5) < 4 * 0.5 / np.sqrt(b.size)
    bytes_ = np.packbits(flat)  # and longer patterns are all equally frequent, too
    counts = np.bincount(bytes_, minlength=256)
    chi_square = ((counts - bytes_.size / 256) ** 2 / (bytes_.size / 256)).sum()
    assert abs(chi_square - 255) < 4 * np.sqrt(2 * 255)


def test_attention_dropout_acts_in_training_only():
    """Catches a dropout of attention weights that is configured and never applied."""
    attend, _, _ = multi_head(attention_dropout_rate=0.5)
    trained = [
        attend(deterministic=False, rngs={"dropout": jax.random.key(seed)}) for seed in (0, 0, 1)
    ]
    assert (trained[0] == trained[1]).all()
    assert not np.allclose(trained[0], trained[2])
    assert not np.allclose(trained[0], attend())
