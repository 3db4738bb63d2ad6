"""Attention against plain formulas, its masks and its dropout."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params
from transformer.config import ModelConfig
from transformer.model.attention import MultiHeadAttention, ancestor_mask, causal_mask, segment_mask
from transformer.model.primitives import Dropout
from transformer.registry import register_attention

B, T, S, N, H, D = 2, 3, 5, 2, 4, 6


def picture(mask):
    """A mask [B=1, N=1, T, S]: a word per query, a letter per key, x where it may attend."""
    assert mask.shape[:2] == (1, 1) and mask.dtype == bool
    return " ".join("".join(".x"[may] for may in row) for row in mask[0, 0].tolist())


def test_masks():
    """Catches leaks between sentences, attention to padding, T for S, columns in another order."""
    segments = jnp.array([[1, 1, 2, 2, 2, 0]])
    own = segment_mask(jnp.array([[1, 1, 2, 0]]), jnp.array([[1, 1, 1, 2, 2, 0]]))
    assert picture(own) == "xxx... xxx... ...xx. ......"
    causal = segment_mask(segments, segments) & causal_mask(6)
    assert picture(causal) == "x..... xx.... ..x... ..xx.. ..xxx. ......"
    ancestors = jnp.array([[[1, 0, -1], [1, 1, -1]]])  # [B=1, W=2, L=3], as in the docstring
    assert picture(ancestor_mask(ancestors)) == ".xx... .x.x.."


def multi_head(**changes):
    """A function that attends from the first T of S positions, with random parameters."""
    x = np.random.default_rng(1).normal(size=(B, S, D)).astype(np.float32)
    config = ModelConfig(d_model=D, num_heads=N, head_dim=H, **changes)
    module = MultiHeadAttention(config, config.attention)

    def attend(module, deterministic=True):
        return module(x[:, :T], x, mask=None, deterministic=deterministic)

    params = random_params(module.init, method=attend)
    return partial(module.apply, {"params": params}, method=attend)


@pytest.mark.parametrize(
    ("result", "found"), [(lambda value: value[:, :-1], r"\(2, \d+, 2, \d+\)"), (id, "int")]
)
def test_an_own_function_returns_a_value_for_each_query(result, found):
    """Catches an error about broadcasting, far from the function that is wrong."""
    register_attention("own", lambda query, key, value, mask=None, dropout=None: result(value))
    with pytest.raises(ValueError, match=rf"attention=own must return .*, not {found}\."):
        multi_head(attention="own")


def test_dropout_keeps_rate_and_expectation():
    """Catches a rate that is inverted, and survivors that are not scaled up."""
    x = np.ones(100_000, np.float32)
    apply = jax.jit(partial(Dropout(0.3).apply, {}, deterministic=False))
    dropped = np.asarray(apply(x, rngs={"dropout": jax.random.key(0)}))
    assert abs((dropped == 0).mean() - 0.3) < 0.01
    np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.7, rtol=1e-6)
    assert (Dropout(0.3).apply({}, x, deterministic=True) == x).all()


def test_dropout_of_neighbours_steps_and_layers_is_independent():
    """Catches a hash that is too weak: stripes, or masks that are shifts or copies of others."""
    x = np.ones((4, 64, 32, 64), np.float32)
    apply = jax.jit(partial(Dropout(0.5).apply, {}, deterministic=False))

    def kept(seed):
        key = jax.random.fold_in(jax.random.PRNGKey(0), seed)
        return (np.asarray(apply(x, rngs={"dropout": key})) > 0).ravel()

    first = kept(0)
    pairs = [(first, kept(seed)) for seed in range(1, 6)]
    pairs += [(first[n:], first[:-n]) for n in (1, 2, 3, 4, 8, 64, 2048, 65_536)]
    for a, b in pairs:
        assert abs((a == b).mean() - 0.5) < 4 * 0.5 / np.sqrt(b.size)
    bytes_ = np.packbits(first)  # and longer patterns are all equally frequent, too
    counts = np.bincount(bytes_, minlength=256)
    chi_square = ((counts - bytes_.size / 256) ** 2 / (bytes_.size / 256)).sum()
    assert abs(chi_square - 255) < 4 * np.sqrt(2 * 255)


def test_attention_dropout_acts_in_training_only():
    """Catches a dropout of attention weights that is configured and never applied."""
    attend = multi_head(attention_dropout_rate=0.5)
    first, same, other = (
        attend(deterministic=False, rngs={"dropout": jax.random.key(seed)}) for seed in (0, 0, 1)
    )
    assert (first == same).all()
    assert not np.allclose(first, other) and not np.allclose(first, attend())
