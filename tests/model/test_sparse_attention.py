"""Local, strided and fixed attention are exact where they see, with any mask, in blocks or not."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.attention import equation_1, random_qkv
from tests.helpers.rings import others_long
from transformer.model.attention_functions import scaled_dot_product_attention
from transformer.model.performer_attention import performer_attention
from transformer.model.sparse_attention import (
    PATTERNS,
    sparse_attention,
)

local_attention = partial(sparse_attention, pattern="local")

B, N = 2, 3


def seen_by_definition(pattern, mask, length, block):
    """The pattern of Child et al. under a mask: [B, N, T, T]."""
    mask = np.broadcast_to(mask is None or mask, (B, N, length, length))
    seen = np.zeros((B, length, length), bool)
    for b in range(B):
        starts = np.zeros(length, int)  # of the sentence of each position
        for t in range(1, length):  # it begins behind a key that the next query does not see
            starts[t] = starts[t - 1] if mask[b, :, t, t - 1].any() else t
        for t, s in np.ndindex(length, length):
            place = (s - starts[s]) % block
            blocks = t - (t - starts[t]) % block, s - place
            seen[b, t, s] = {
                "local": abs(t - s) <= block,
                "strided": abs(t - s) <= block or (t - s) % block == 0,
                "fixed": blocks[0] == blocks[1] or place >= block - max(1, block // 16),
            }[pattern]
    return seen[:, None] & mask


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


SHORT = (10, 3, ["none", "keys", "causal", "packed", "heads"], ["local", "fixed"])
IN_ONE = (5, 4, ["none", "packed"], PATTERNS)
LONG = [
    (13, 3, ["none", "keys", "packed", "heads"], ["strided"]),
    (24, 4, ["keys"], PATTERNS),
    (25, 4, ["packed", "heads"], ["local", "fixed"]),
    (27, 1, ["causal"], ["local"]),
    (137, 32, ["packed"], ["fixed"]),
]


@pytest.mark.parametrize(
    "length, block, kinds, patterns", others_long([SHORT, IN_ONE, *LONG], SHORT, IN_ONE)
)
def test_it_is_full_attention_where_the_pattern_lets_it_see(length, block, kinds, patterns):
    """Catches a pattern one position off, a key met twice, a lost last block, a misread mask."""
    qkv = random_qkv(length)
    cases = [(pattern, masks(length)[kind]) for pattern in patterns for kind in kinds]

    @jax.jit
    def run(masks):
        return [
            sparse_attention(*qkv, mask=mask, block=block, pattern=pattern)
            for (pattern, _), mask in zip(cases, masks, strict=True)
        ]

    for (pattern, mask), ours in zip(cases, run([mask for _, mask in cases]), strict=True):
        seen = seen_by_definition(pattern, mask, length, block)
        sees_any = seen.any(-1).swapaxes(1, 2)
        expected = equation_1(*qkv, seen)
        np.testing.assert_allclose(ours[sees_any], expected[sees_any], atol=1e-5, err_msg=pattern)
        assert np.isfinite(ours).all()


@pytest.mark.parametrize("length", [6, 23])
def test_gradients_of_local_are_those_of_equation_1(length):
    """Catches a gradient lost where blocks overlap, and NaN of queries that see nothing."""
    qkv, mask = random_qkv(length), masks(length)["packed"]
    mask[0, 0, 2] = False
    seen = seen_by_definition("local", mask, length, 3)
    is_counted = seen.any((1, 3))[..., None, None]

    def gradient(attention):
        return jax.grad(lambda qkv: ((attention(*qkv) * is_counted) ** 2).sum())

    ours = gradient(partial(local_attention, mask=mask, block=3))
    expected = gradient(partial(scaled_dot_product_attention, mask=seen))
    for a, b in zip(*jax.jit(lambda qkv: (ours(qkv), expected(qkv)))(qkv), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("length", [6, 23])
def test_local_drops_weights_and_knows_bfloat16(length):
    """Catches dropout that is lost in the blocks, and a mask value that overflows in bfloat16."""
    qkv, local = random_qkv(length), partial(local_attention, block=3)

    @jax.jit
    def run(*qkv):
        dropped = local(*qkv, dropout=lambda weights: weights / 2)
        return local(*qkv), dropped, local(*(x.astype(jnp.bfloat16) for x in qkv))

    whole, half, rough = run(*qkv)
    np.testing.assert_allclose(half, whole / 2, atol=1e-6)
    assert rough.dtype == jnp.bfloat16
    np.testing.assert_allclose(rough.astype(np.float32), whole, atol=0.05)


@pytest.mark.parametrize(
    "pattern, most", [("local", 4.3), ("strided", 5.8), ("fixed", 9), ("performer", 4.3)]
)
def test_arithmetic_grows_slower_than_the_square_of_the_length(pattern, most):
    """Catches a product of all pairs of positions, which four times the length makes 16 times."""
    attention = partial(sparse_attention, block=32, pattern=pattern)
    if pattern == "performer":
        attention = partial(performer_attention, num_features=32)

    def flops(length):
        return jax.jit(attention).lower(*random_qkv(length, rows=1)).cost_analysis()["flops"]

    assert 3.9 < flops(2048) / flops(512) < most
