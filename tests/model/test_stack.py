"""A Stack: cached steps with every kind of attention, and its arrangements."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.model.attention import Place, causal_mask
from transformer.model.layers import Stack

B, T, S, D = 2, 9, 5, 16
BLOCK = 2  # of local attention


def random_arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def source_mask(rows):
    """The first sentence of the source is shorter than the others."""
    return (np.arange(S) < np.array([3] + [S] * (rows - 1))[:, None])[:, None, None]


def random_ancestors(rows, width, length):
    """The table of ancestors after every step, as a search makes it: [T, B, W, T]."""
    rng = np.random.default_rng(1)
    table, tables = np.full((rows, width, length), -1), []
    for position in range(length):
        parents = rng.integers(0, width, (rows, width, 1))
        table = np.take_along_axis(table, parents, axis=1)
        table[:, :, position] = np.arange(width)
        tables.append(table)
    return np.stack(tables)


@pytest.mark.parametrize(
    "rows, width, changes",
    [
        (2, 3, dict(num_layers=2)),
        (2, 1, dict(norm="pre", attention="local")),
        (2, 2, dict(attention="dot_product")),
        (2, 1, dict(attention="dot_product")),
        (1, 2, dict(attention="fused")),
        (1, 2, dict(attention="hard")),
        (1, 4, dict(attention="additive")),
        (2, 2, dict(attention="location")),
        (2, 2, dict(attention="strided")),
        (2, 3, dict(attention="fixed")),
        (2, 1, dict(attention="performer")),
        (2, 2, dict(positions="rotary")),
        (2, 1, dict(positions="relative")),
        (2, 2, dict(positions="t5")),
    ],
    ids=str,
)
def test_cached_steps_equal_the_full_pass(rows, width, changes):
    """Catches mixed up beams, distances between columns of the ring, and junk of the cache read."""
    config = tiny_config(**(dict(num_layers=1, attention_block=BLOCK) | changes))
    stack = Stack(config, cross_attention=True)
    x, source = random_arrays((rows, width, T, D), (rows, S, D))
    ancestors, starts = random_ancestors(rows, width, T), np.array([0, 6])[:rows]

    def full(stack, x):
        each = partial(jnp.repeat, repeats=width, axis=0)  # every hypothesis a row of its own
        return stack(
            x.reshape(-1, T, D),
            mask=causal_mask(T),
            encoded=each(source),
            encoded_mask=each(source_mask(rows)),
            deterministic=True,
        ).reshape(x.shape)

    def start(stack):
        cache = stack.init_cache(rows, width, T)
        return jax.tree.map(lambda leaf: leaf + 9, cache), stack.project_keys_values(source)

    variables = {"params": random_params(stack.init, x, method=full)}
    cache, encoded = jax.jit(partial(stack.apply, method=start))(variables)
    step = jax.jit(partial(stack.apply, method="step", encoded_mask=source_mask(rows)))
    outputs = np.zeros_like(x)
    for now in range(T + starts[-1]):
        positions = np.clip(now - starts, 0, T - 1)
        places = [*enumerate(positions)]
        table = [np.roll(ancestors[t, row], starts[row], axis=1) for row, t in places]
        place = Place(now % T, positions, np.stack(table))
        tokens = np.stack([x[row, :, t] for row, t in places])
        y, cache = step(variables, tokens, cache, place, encoded=encoded)
        for row, t in places:
            if now == t + starts[row]:
                outputs[row, :, t] = y[row]
    # Position t of a final hypothesis is what its ancestor read and wrote there.
    final = ancestors[-1][..., None]
    ours, hypotheses = (np.take_along_axis(a, final, axis=1) for a in (outputs, x))
    expected = jax.jit(partial(stack.apply, method=full))(variables, hypotheses)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "relative"])
def test_remat_and_scanned_layers_change_nothing(positions):
    """Catches layers in another order, a forgotten mask, weights by other names, lost positions."""
    x, source = random_arrays((B, T, D), (B, S, D))
    inputs = dict(mask=causal_mask(T), deterministic=True)
    inputs |= dict(encoded=source, encoded_mask=source_mask(B))
    plain = Stack(tiny_config(positions=positions), cross_attention=True)
    both = plain.clone(remat=True, scan_layers=True)
    shapes = [
        jax.eval_shape(partial(stack.init, **inputs), jax.random.key(0), x)
        for stack in (plain, both)
    ]
    assert shapes[0] == shapes[1]
    params = random_params(plain.init, x, **inputs)

    def loss(params, stack):
        return (stack.apply({"params": params}, x, **inputs) ** 3).sum()

    expected, ours = (
        jax.jit(jax.value_and_grad(partial(loss, stack=stack)))(params) for stack in (plain, both)
    )
    close = partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-4)
    jax.tree.map(close, ours, expected)
    close(jax.jit(partial(loss, stack=plain.clone(remat=True)))(params), expected[0])


@pytest.mark.parametrize("option", [dict(remat=True), dict(scan_layers=True)], ids=str)
def test_dropout_reaches_recomputed_and_scanned_layers(option):
    """Catches dropout that is lost, or always the same, where layers are recomputed or scanned."""
    stack = Stack(tiny_config(dropout_rate=0.5, num_layers=1), **option)
    x = np.ones((B, T, D), np.float32)
    params = random_params(stack.init, x, mask=None, deterministic=True)

    @jax.jit
    def call(seed):
        rngs = {"dropout": jax.random.PRNGKey(seed)}
        return stack.apply({"params": params}, x, mask=None, deterministic=False, rngs=rngs)

    np.testing.assert_array_equal(call(0), call(0))
    assert not np.allclose(call(0), call(1))
