"""Blocks by hand formula, causality by gradient, cached steps against the full pass."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.model.layers import FeedForward, Residual, Stack
from transformer.model.masks import causal_mask

B, W, T, S, D = 2, 3, 4, 5, 16


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_by_hand(norm):
    """Catches a norm in the wrong place, of which a model trains all the same."""
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype(np.float32)
    ours, _ = Residual(norm, 0.0).init_with_output(
        jax.random.key(0), x, lambda y: 3 * y + 1, deterministic=True
    )
    expected = layer_norm(x + 3 * x + 1) if norm == "post" else x + 3 * layer_norm(x) + 1
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_residual_drops_the_sublayer_only(norm):
    """Catches dropout of the residual path: with everything else dropped, x itself must remain."""
    x = np.random.default_rng(0).normal(size=(B, T, D)).astype(np.float32)
    rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    ours, _ = Residual(norm, 0.999).init_with_output(
        rngs, x, lambda y: 1000 + 0 * y, deterministic=False
    )
    untouched = np.isclose(ours, layer_norm(x) if norm == "post" else x, atol=1e-5)
    assert untouched.mean() > 0.7


def test_feed_forward_by_hand():
    """Catches a missing bias or ReLU, and a second layer of another width than the input's."""
    x = np.random.default_rng(0).normal(size=(T, D)).astype(np.float32)
    module = FeedForward(32)
    params = random_params(module.init, x)
    inner, outer = params["inner"], params["outer"]
    expected = np.maximum(x @ inner["kernel"] + inner["bias"], 0) @ outer["kernel"] + outer["bias"]
    np.testing.assert_allclose(module.apply({"params": params}, x), expected, rtol=1e-4, atol=1e-4)


def influence(mask):
    """Which input (column) can change which output (row) of a Stack: the Jacobian, as a picture."""
    stack = Stack(tiny_config())
    x = np.random.default_rng(0).normal(size=(1, T, D)).astype(np.float32)
    variables = {"params": random_params(stack.init, x, mask=mask, deterministic=True)}
    run = partial(stack.apply, variables, mask=mask, deterministic=True)
    jacobian = jax.jit(jax.jacrev(lambda y: run(y)[0]))(x)[:, :, 0]  # [T, D, T, D]
    acts = np.asarray(jnp.abs(jacobian).max((1, 3)) > 0)
    return ["".join("x" if does else "." for does in row) for row in acts]


def test_no_gradient_from_the_future():
    """Catches any leak from later positions, through whichever layer: it would be exactly zero."""
    assert influence(causal_mask(T)) == ["x...", "xx..", "xxx.", "xxxx"]


def test_an_encoder_sees_both_ways():
    """Catches a causal mask in the encoder."""
    assert influence(jnp.ones((1, 1, T, T), bool)) == ["xxxx"] * T


@pytest.mark.parametrize("num_beams", [1, W])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_cached_steps_equal_the_full_pass(norm, num_beams):
    """Catches a cache written or read one place off, beams mixed up, and a forgotten last norm.

    The cache starts full of junk, as a search leaves it: places not yet written must not be read.
    """
    stack = Stack(tiny_config(norm=norm), cross_attention=True)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(B, num_beams, T, D)).astype(np.float32)
    source = rng.normal(size=(B, S, D)).astype(np.float32)
    source_mask = (np.arange(S) < [[3], [5]])[:, None, None]

    def full(stack):
        rows = x.reshape(-1, T, D)
        each = partial(jnp.repeat, repeats=num_beams, axis=0)  # every beam a row of its own
        return stack(
            rows,
            mask=causal_mask(T),
            encoded=each(source),
            encoded_mask=each(source_mask),
            deterministic=True,
        ).reshape(x.shape)

    def stepwise(stack):
        encoded = stack.keys_values(source)
        own, places = jnp.arange(num_beams)[:, None], jnp.arange(T)
        cache = jax.tree.map(lambda leaf: leaf + 9, stack.init_cache(B, num_beams, T))
        outputs = []
        for position in range(T):
            ancestors = jnp.where(places <= position, own, -1)
            sources = dict(encoded=encoded, encoded_mask=source_mask)
            ancestors = jnp.broadcast_to(ancestors, (B, num_beams, T))
            out, cache = stack.step(
                x[:, :, position], cache, position, ancestors=ancestors, **sources
            )
            outputs.append(out)
        return jnp.stack(outputs, axis=2)

    variables = {"params": random_params(stack.init, method=full)}
    expected, ours = (jax.jit(partial(stack.apply, method=m))(variables) for m in (full, stepwise))
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("remat", [False, True])
@pytest.mark.parametrize("scan_layers", [False, True])
@pytest.mark.parametrize("cross_attention", [False, True])
def test_remat_and_scanned_layers_change_nothing(remat, scan_layers, cross_attention):
    """Catches layers in another order, a forgotten mask, and weights by other names."""
    rng = np.random.default_rng(0)
    x, source = (rng.normal(size=(B, n, D)).astype(np.float32) for n in (T, S))
    inputs = dict(mask=causal_mask(T), deterministic=True)
    if cross_attention:
        source_mask = (np.arange(S) < [[3], [5]])[:, None, None]
        inputs |= dict(encoded=source, encoded_mask=source_mask)
    plain = Stack(tiny_config(num_layers=3), cross_attention)
    params = random_params(plain.init, x, **inputs)
    arranged = plain.clone(remat=remat, scan_layers=scan_layers)

    def gradient(stack):
        loss_fn = lambda params: (stack.apply({"params": params}, x, **inputs) ** 3).sum()  # noqa: E731
        return jax.jit(jax.value_and_grad(loss_fn))(params)

    ours, expected = gradient(arranged), gradient(plain)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4), ours, expected)
    shapes = (
        jax.eval_shape(partial(s.init, **inputs), jax.random.key(0), x) for s in (arranged, plain)
    )
    assert next(shapes) == next(shapes)


@pytest.mark.parametrize("arranged", [{"remat": True}, {"scan_layers": True}])
def test_dropout_reaches_arranged_layers(arranged):
    """Catches dropout that is lost, or always the same, where layers are recomputed or scanned."""
    config = tiny_config(num_layers=4, dropout_rate=0.5)
    stack = Stack(config, **arranged)
    x = np.ones((B, T, D), np.float32)
    inputs = dict(mask=causal_mask(T), deterministic=False)
    params = random_params(stack.init, x, mask=causal_mask(T), deterministic=True)

    def call(seed):
        rngs = {"dropout": jax.random.PRNGKey(seed)}
        return stack.apply({"params": params}, x, **inputs, rngs=rngs)

    np.testing.assert_array_equal(call(0), call(0))
    assert not np.allclose(call(0), call(1))
    plain = stack.apply({"params": params}, x, mask=causal_mask(T), deterministic=True)
    assert not np.allclose(call(0), plain)
