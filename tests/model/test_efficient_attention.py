"""Local attention is exact under its window; the Performer's error is measured; both are linear."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, tiny_config, tiny_model
from transformer.config import Config
from transformer.model.attention import MultiHeadAttention
from transformer.model.attention_functions import scaled_dot_product_attention
from transformer.model.efficient_attention import (
    _mask_of_blocks,
    local_attention,
    performer_attention,
    random_features,
)

B, N, H = 2, 3, 4


def arrays(length, width=H, scale=1.0, rows=B, heads=N):
    """query, key and value, each [B, T, N, H] at random."""
    rng = np.random.default_rng(0)
    shape = rows, length, heads, width
    return [(scale * rng.normal(size=shape)).astype(np.float32) for _ in range(3)]


def band(length, block):
    """The window by definition: [T, T], |t - s| <= block."""
    return np.array([[abs(t - s) <= block for s in range(length)] for t in range(length)])


def masks(length):
    """Masks of each shape that the models make, and one that differs between heads."""
    rng = np.random.default_rng(1)
    segments = np.sort(rng.integers(1, 4, (B, length)))
    causal = np.tril(np.ones((length, length), bool))
    return {
        "none": None,
        "keys": (np.arange(length) < [[length], [length // 2]])[:, None, None],
        "causal": causal[None, None],
        "packed": (segments[:, :, None] == segments[:, None])[:, None] & causal,
        "heads": rng.random((1, N, length, length)) < 0.8,
    }


def full_attention(query, key, value, mask):
    """Equation (1) in numpy; a query that sees nothing gets zeros."""
    logits = np.einsum("BTNH,BSNH->BNTS", query, key) / np.sqrt(query.shape[-1])
    exp = np.exp(logits) * mask
    weights = exp / np.maximum(exp.sum(-1, keepdims=True), 1e-30)
    return np.einsum("BNTS,BSNH->BTNH", weights, value)


@pytest.mark.parametrize(
    "length, block, kinds",
    [
        (10, 3, ["none", "keys", "causal", "packed", "heads"]),
        (24, 4, ["keys"]),
        (25, 4, ["packed", "heads"]),
        (27, 1, ["causal"]),
        (5, 4, ["none", "packed"]),
        (9, 3, ["packed"]),
    ],
)
def test_local_is_full_attention_under_its_window(length, block, kinds):
    """Catches a window one position off, a forgotten last block, and a misread mask."""
    qkv = arrays(length)
    given = [masks(length)[kind] for kind in kinds]
    run = jax.jit(lambda masks: [local_attention(*qkv, mask=m, block=block) for m in masks])
    for kind, mask, ours in zip(kinds, given, run(given), strict=True):
        seen = band(length, block)[None, None]
        seen = np.broadcast_to(seen if mask is None else seen & mask, (B, N, length, length))
        sees_any = seen.any(-1).swapaxes(1, 2)
        expected = full_attention(*qkv, seen)
        np.testing.assert_allclose(ours[sees_any], expected[sees_any], atol=1e-5, err_msg=kind)
        assert np.isfinite(ours).all()


@pytest.mark.parametrize("length", [6, 23])
def test_gradients_of_local_are_those_of_full_attention(length):
    """Catches a gradient lost where blocks overlap, and NaN of queries that see nothing."""
    qkv, mask = arrays(length), masks(length)["packed"]
    mask[0, 0, 2] = False
    seen = mask & band(length, 3)
    is_counted = seen.any(-1).swapaxes(1, 2)[..., None]

    def gradient(attention):
        return jax.grad(lambda qkv: ((attention(*qkv) * is_counted) ** 2).sum())

    ours = gradient(partial(local_attention, mask=mask, block=3))
    expected = gradient(partial(scaled_dot_product_attention, mask=seen))
    for a, b in zip(*jax.jit(lambda qkv: (ours(qkv), expected(qkv)))(qkv), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("length", [6, 23])
def test_local_drops_weights_and_knows_bfloat16(length):
    """Catches dropout that is lost in the blocks, and a mask value that overflows in bfloat16.

    Half of every weight is half of the result.
    """
    qkv, local = arrays(length), partial(local_attention, block=3)

    @jax.jit
    def run(*qkv):
        dropped = local(*qkv, dropout=lambda weights: weights / 2)
        return local(*qkv), dropped, local(*(x.astype(jnp.bfloat16) for x in qkv))

    whole, half, rough = run(*qkv)
    np.testing.assert_allclose(half, whole / 2, atol=1e-6)
    assert rough.dtype == jnp.bfloat16
    np.testing.assert_allclose(rough.astype(np.float32), whole, atol=0.05)


def test_the_window_in_blocks_is_as_its_docstring_draws_it():
    """Catches an example that misleads its reader."""
    rows = ["..xxx.", "..xxxx", "xxxxx.", ".xxxx.", "xxx...", ".xx..."]
    drawn = np.array([[mark == "x" for mark in row] for row in rows])
    np.testing.assert_array_equal(_mask_of_blocks(None, 5, 2).reshape(6, 6), drawn)


def test_local_refuses_another_sequence():
    """Catches a window over positions of two different sequences."""
    query, key, value = arrays(9)
    with pytest.raises(ValueError, match="9 queries and 7 keys have no positions in common"):
        local_attention(query, key[:, :7], value[:, :7], block=3)


def test_a_packed_sentence_is_the_same_with_local_attention():
    """Catches windows on a grid: a sentence would depend on where its row has it."""
    qkv, sentences = arrays(24), (slice(0, 11), slice(11, 24))
    segments = np.repeat([[1, 2]], [11, 13], axis=1)
    mask = (segments[:, :, None] == segments[:, None])[:, None]
    run = jax.jit(partial(local_attention, block=2))
    packed = run(*qkv, mask=mask)
    for inside in sentences:
        alone = run(*(x[:, inside] for x in qkv))
        np.testing.assert_allclose(packed[:, inside], alone, atol=1e-5)


@pytest.mark.parametrize(
    "attention",
    [partial(local_attention, block=32), partial(performer_attention, num_features=32)],
    ids=["local", "performer"],
)
def test_arithmetic_grows_with_the_length(attention):
    """Catches a product of all pairs of positions, which four times the length makes 16 times."""

    def flops(length):
        return jax.jit(attention).lower(*arrays(length, rows=1)).cost_analysis()["flops"]

    assert 3.9 < flops(2048) / flops(512) < 4.3


def error(num_features, length=64, width=16):
    """Root mean square of the Performer's error, over that of full attention's result.

    Queries and keys have entries of deviation 0.5: with longer ones it is no approximation at all.
    """
    query, key, value = arrays(length, width, rows=2, heads=4)
    query, key = query / 2, key / 2
    expected = full_attention(query, key, value, True)
    run = jax.jit(partial(performer_attention, num_features=num_features))
    ours = run(query, key, value)
    return float(np.sqrt(((ours - expected) ** 2).mean() / (expected**2).mean()))


def test_the_performers_error_falls_with_its_features():
    """Catches an approximation of something else: its error would stay where it is."""
    errors = [error(num_features) for num_features in (16, 256, 4096)]
    assert errors == sorted(errors, reverse=True), errors
    assert errors[1] < 0.2, errors  # 0.14
    assert errors[-1] < errors[0] / 6, errors  # 256 times the features: a 16th, if all were alike


def test_the_performer_sees_exactly_the_keys_it_may():
    """Catches a padded key that is summed up, or that sets the scale of the others."""
    query, key, value = arrays(12)
    features = random_features(32, H)
    longest = features[(features**2).sum(1).argmax()]
    mask = (np.arange(12) < [[12], [7]])[:, None, None]
    others = key.copy(), value.copy()
    others[0][1, 7:], others[1][1, 7:] = longest * H**0.25, 100  # no key has a larger feature
    run = jax.jit(partial(performer_attention, num_features=32))
    expected = run(query[1:], key[1:, :7], value[1:, :7])
    for keys_values in ((key, value), others):
        ours = run(query, *keys_values, mask=mask)
        np.testing.assert_allclose(ours[1:], expected, atol=1e-5)
    np.testing.assert_allclose(ours[0], run(query, key, value, mask=mask)[0], atol=1e-6)


@jax.jit
def squares_and_gradient(qkv, mask):
    """The sum of the squares of the Performer's result, and its gradient."""
    run = partial(performer_attention, mask=mask, num_features=32)
    return jax.value_and_grad(lambda qkv: (run(*qkv) ** 2).sum())(qkv)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_the_performer_is_finite(scale):
    """Catches exponentials that overflow, sums that vanish, and a row without any key."""
    mask = (np.arange(12) < [[12], [0]])[:, None, None]
    total, gradients = squares_and_gradient(arrays(12, scale=scale), mask)
    assert np.isfinite(total) and all(np.isfinite(g).all() for g in gradients)


def test_the_performer_refuses_what_it_cannot_honour():
    """Catches a decoder that sees its future, and dropout that vanishes."""
    qkv = arrays(12)
    with pytest.raises(ValueError, match="no mask may differ between queries"):
        performer_attention(*qkv, mask=masks(12)["causal"], num_features=32)
    with pytest.raises(ValueError, match="no weights to drop"):
        performer_attention(*qkv, dropout=lambda weights: weights, num_features=32)
    batch = make_batch([[([4, 2], [5, 2])]], 2, 2)
    with pytest.raises(ValueError, match="no mask may differ between queries"):
        init = partial(tiny_model(attention="performer").init, deterministic=True)
        jax.eval_shape(init, jax.random.key(0), batch)


def test_the_performers_features_are_those_of_the_configuration():
    """Catches a setting that reaches no layer: more features give a nearer result."""
    Config(task="images", model=tiny_config(attention="performer")).validate()
    x = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)

    def run(**changes):
        config = tiny_config(**changes)
        module = MultiHeadAttention(config, config.attention)

        def attend(module):
            return module(x, module.project_keys_values(x), mask=None, deterministic=True)

        params = random_params(module.init, method=attend)
        return jax.jit(lambda params: module.apply({"params": params}, method=attend))(params)

    expected = run()
    near, far = (
        np.abs(run(attention="performer", attention_features=count) - expected).mean()
        for count in (4096, 8)
    )
    assert near < far / 2


def test_random_features_are_orthogonal_gaussian_and_always_the_same():
    """Catches directions that prefer a side (the estimate is biased), and other ones at restore."""
    features = random_features(6000, 6)
    groups = features.reshape(1000, 6, 6)
    products = groups @ groups.transpose(0, 2, 1)
    assert np.abs(products[:, ~np.eye(6, dtype=bool)]).max() < 1e-4
    assert np.abs(features.mean(0)).max() < 0.06
    np.testing.assert_allclose(np.cov(features.T), np.eye(6), atol=0.1)
    assert abs((features**2).sum(1).var() - 2 * 6) < 1.5  # of the chi-square with 6 degrees
    random_features.cache_clear()
    np.testing.assert_array_equal(random_features(6000, 6), features)
