"""Local attention is exact under its window; the Performer's error is measured; both are linear."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, sentence, tiny_config, tiny_model
from transformer.config import Config
from transformer.model.attention_functions import scaled_dot_product_attention
from transformer.model.efficient_attention import (
    local_attention,
    performer_attention,
    random_features,
)
from transformer.model.layers import Stack

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


@pytest.mark.parametrize("kind", masks(4))
@pytest.mark.parametrize("length, block", [(10, 3), (24, 4), (25, 4), (27, 1), (5, 4), (9, 3)])
def test_local_is_full_attention_under_its_window(length, block, kind):
    """Catches a window one place off, a forgotten last block, and a mask read at another place."""
    qkv, mask = arrays(length), masks(length)[kind]
    seen = band(length, block)[None, None]
    seen = seen if mask is None else seen & mask
    ours = jax.jit(partial(local_attention, block=block))(*qkv, mask=mask)
    expected = scaled_dot_product_attention(*qkv, mask=seen)
    sees_any = np.broadcast_to(seen, (B, N, length, length)).any(-1).swapaxes(1, 2)
    np.testing.assert_allclose(ours[sees_any], expected[sees_any], atol=1e-5)
    assert np.isfinite(ours).all()


@pytest.mark.parametrize("length", [6, 23])
def test_gradients_of_local_are_those_of_full_attention(length):
    """Catches a gradient lost where blocks overlap, and NaN of places that see nothing."""
    qkv, mask = arrays(length), masks(length)["packed"]
    mask[0, 0, 2] = False
    seen = mask & band(length, 3)
    counts = seen.any(-1).swapaxes(1, 2)[..., None]  # what sees nothing counts nothing

    def gradient(attention):
        return jax.grad(lambda qkv: ((attention(*qkv) * counts) ** 2).sum())(qkv)

    ours = gradient(partial(local_attention, mask=mask, block=3))
    expected = gradient(partial(scaled_dot_product_attention, mask=seen))
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("length", [6, 23])
def test_local_drops_weights(length):
    """Catches dropout that is lost in the blocks: half of every weight is half of the result."""
    qkv = arrays(length)
    ours = local_attention(*qkv, dropout=lambda weights: weights / 2, block=3)
    np.testing.assert_allclose(ours, local_attention(*qkv, block=3) / 2, atol=1e-6)


def test_local_in_bfloat16_is_near():
    """Catches a mask value that overflows in bfloat16, and a softmax that is not in float32."""
    qkv = arrays(23)
    ours = local_attention(*(x.astype(jnp.bfloat16) for x in qkv), block=3)
    assert ours.dtype == jnp.bfloat16
    np.testing.assert_allclose(ours.astype(np.float32), local_attention(*qkv, block=3), atol=0.05)


def test_local_refuses_another_sequence():
    """Catches a window over places that have nothing to do with each other."""
    query, key, value = arrays(9)
    with pytest.raises(ValueError, match="9 queries and 7 keys have no places in common"):
        local_attention(query, key[:, :7], value[:, :7], block=3)


@pytest.fixture(scope="module")
def pairs():
    """Sentence pairs, some of them longer than three blocks of two places."""
    rng = np.random.default_rng(0)
    return [(sentence(rng, s), sentence(rng, t)) for s, t in ((9, 8), (3, 5), (10, 11), (7, 4))]


def test_a_packed_sentence_is_the_same_with_local_attention(pairs):
    """Catches windows on a grid: a sentence would depend on the place where its row has it."""
    model = tiny_model(attention="local", attention_block=2)
    packed, apart = (
        make_batch([pairs[:2], pairs[2:]], 18, 16),
        make_batch([[p] for p in pairs], 10, 11),
    )
    variables = {"params": random_params(model.init, packed, deterministic=True)}
    run = jax.jit(partial(model.apply, deterministic=True))
    ours, expected = run(variables, packed), run(variables, apart)
    for index, (_, target) in enumerate(pairs):
        row, segment = divmod(index, 2)
        inside = packed.target_segments[row] == segment + 1
        np.testing.assert_allclose(ours[row][inside], expected[index, : len(target)], atol=1e-5)


def test_the_decoder_sees_the_whole_source_with_local_attention(pairs):
    """Catches a window over the source where it happens to be as long as the target."""
    model = tiny_model(attention="local", attention_block=1)
    batch = make_batch([pairs[2:3]], 11, 11)
    variables = {"params": random_params(model.init, batch, deterministic=True)}
    _, sown = model.apply(variables, batch, deterministic=True, mutable="intermediates")
    block = sown["intermediates"]["decoder"]["layer_0"]
    (across,), (own,) = (block[f"{kind}_attention"]["weights"] for kind in ("encoder", "self"))
    assert (np.asarray(across)[0, :, :, :10] > 0).all()
    assert not np.asarray(own)[0, 5, :, :4].any()


@pytest.mark.parametrize(
    "attention",
    [partial(local_attention, block=32), partial(performer_attention, num_features=32)],
    ids=["local", "performer"],
)
def test_arithmetic_grows_with_the_length(attention):
    """Catches a product of all pairs of places, which four times the length makes 16 times."""

    def flops(length):
        compiled = jax.jit(attention).lower(*arrays(length, rows=1)).compile()
        return compiled.cost_analysis()["flops"]

    assert 3.9 < flops(2048) / flops(512) < 4.3


def error(num_features, length=64, width=16):
    """Root mean square of the Performer's error, over that of full attention's result.

    Queries and keys have entries of deviation 0.5: with longer ones it is no approximation at all.
    """
    query, key, value = arrays(length, width, rows=2, heads=4)
    query, key = query / 2, key / 2
    expected = scaled_dot_product_attention(query, key, value)
    ours = performer_attention(query, key, value, num_features=num_features)
    return float(np.sqrt(((ours - expected) ** 2).mean() / (expected**2).mean()))


def test_the_performer_s_error_falls_with_its_features():
    """Catches a sketch of something else: its error would stay where it is."""
    errors = [error(num_features) for num_features in (16, 64, 256, 1024, 4096)]
    assert errors == sorted(errors, reverse=True), errors
    assert errors[2] < 0.2, errors  # 0.14
    assert errors[-1] < errors[0] / 6, errors  # 256 times the features: a 16th, if all were alike


def test_the_performer_sees_exactly_the_keys_it_may():
    """Catches a padded key that is summed up, or that sets the scale of the others."""
    query, key, value = arrays(12)
    features = random_features(32, H)
    longest = features[(features**2).sum(1).argmax()]
    key[1, 7:], value[1, 7:] = longest * H**0.25, 100  # no key has a larger feature
    mask = (np.arange(12) < [[12], [7]])[:, None, None]
    ours = performer_attention(query, key, value, mask=mask, num_features=32)
    for row, length in enumerate((12, 7)):
        rows = slice(row, row + 1)
        expected = performer_attention(
            query[rows], key[rows, :length], value[rows, :length], num_features=32
        )
        np.testing.assert_allclose(ours[rows], expected, atol=1e-5)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_the_performer_is_finite(scale):
    """Catches exponentials that overflow, sums that vanish, and a row without any key."""
    mask = (np.arange(12) < [[12], [0]])[:, None, None]
    run = partial(performer_attention, mask=mask, num_features=32)
    total, gradients = jax.value_and_grad(lambda qkv: (run(*qkv) ** 2).sum())(
        arrays(12, scale=scale)
    )
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
        tiny_model(attention="performer").init(jax.random.key(0), batch, deterministic=True)


def test_the_performer_works_in_a_stack_of_patches():
    """Catches a setting that reaches no layer: more features, a nearer result, the same weights."""
    config = Config(task="images")
    config.model = tiny_config(attention="performer")
    config.validate()
    x = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)
    inputs = dict(mask=None, deterministic=True)
    full = Stack(tiny_config())
    variables = {"params": random_params(full.init, x, **inputs)}
    expected = full.apply(variables, x, **inputs)
    near, far = (
        np.abs(
            Stack(tiny_config(attention="performer", attention_features=count)).apply(
                variables, x, **inputs
            )
            - expected
        ).mean()
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
