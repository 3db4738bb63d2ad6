"""Positions in attention: by a plain reference, cached, packed, alone, and what is refused."""

import itertools
from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.model.attention import MultiHeadAttention, causal_mask
from transformer.model.relative_positions import (
    T5Positions,
    alibi_slopes,
    range_of_offset,
)
from transformer.model.single_stack import ImageClassifier
from transformer.registry import register_attention

SCHEMES = ["rotary", "relative", "t5", "alibi"]
B, T, D, N, H = 2, 40, 16, 2, 8


def published_t5_bucket(offset, num_buckets=32, max_distance=128):
    """The bucket of a decoder (bidirectional=False) as in Google's code, in plain Python."""
    n = max(-offset, 0)
    max_exact = num_buckets // 2
    if n < max_exact:
        return n
    share = np.log(n / max_exact) / np.log(max_distance / max_exact)
    return min(max_exact + int(share * (num_buckets - max_exact)), num_buckets - 1)


def reference_logit(name, q, k, i, j, head, weights):
    """The logit of one query at position i and one key at position j, as the papers write it."""
    if name == "rotary":  # pairs as complex numbers
        angles = 10_000.0 ** (-2 * np.arange(H // 2) / H)
        turned = [(x[::2] + 1j * x[1::2]) * np.exp(1j * p * angles) for x, p in ((q, i), (k, j))]
        return (turned[0] * turned[1].conj()).sum().real / np.sqrt(H)
    if name == "relative":
        return q @ (k + weights["vectors"][np.clip(j - i, -16, 16) + 16]) / np.sqrt(H)
    product = q @ k / np.sqrt(H)
    if name == "t5":
        row = published_t5_bucket(-abs(j - i)) + 32 * (j > i)
        return product + weights["biases"][row, head]
    return product - 2.0 ** (-8 * (head + 1) / N) * abs(j - i)


@pytest.mark.parametrize("name", SCHEMES)
def test_attention_by_hand(name):
    """Catches a wrong sign or scale, an offset by one, and a table that is read off its end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, T, D)).astype(np.float32)
    attention = MultiHeadAttention(tiny_config(positions=name), "scaled_dot_product")
    mask = causal_mask(T) if name == "alibi" else None

    def attend(attention, x):
        return attention(x, x, mask=mask, positions=np.arange(T), deterministic=True)

    params = random_params(attention.init, x, method=attend)
    run = partial(attention.apply, {"params": params}, x, method=attend, mutable="intermediates")
    ours = np.asarray(run()[1]["intermediates"]["weights"][0])[0]  # [T, N, S]
    weights = {name: np.asarray(w) for name, w in params.get("relative_positions", {}).items()}
    kernels = (np.asarray(params[side]["kernel"]) for side in ("query", "key"))
    q, k = ((x[0] @ kernel).reshape(T, N, H).astype(np.float64) for kernel in kernels)
    for i, head in itertools.product((0, 3, T - 1), range(N)):
        keys = range(T if mask is None else i + 1)
        pairs = [(q[i, head], k[j, head], i, j, head) for j in keys]
        logits = np.array([reference_logit(name, *pair, weights) for pair in pairs])
        expected = np.exp(logits - logits.max())
        found = ours[i, head, : len(keys)]
        np.testing.assert_allclose(found, expected / expected.sum(), atol=2e-5)


def test_ranges_and_slopes_are_the_published_ones():
    """Catches ranges that begin elsewhere than T5's, and slopes for no power of 2."""
    offsets = np.arange(-200, 201)
    ours = range_of_offset(offsets, T5Positions.num_ranges, T5Positions.max_distance)
    before = [published_t5_bucket(offset) for offset in range(-200, 1)]
    np.testing.assert_array_equal(ours[:201], before)
    np.testing.assert_array_equal(ours[201:], np.array(before[:200][::-1]) + 32)
    assert range_of_offset(np.array([0, -1, -2, -3, -4, -9]), 4, 8).tolist() == [0, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(alibi_slopes(8), 0.5 ** np.arange(1, 9))
    np.testing.assert_allclose(alibi_slopes(3), [1 / 16, 1 / 256, 1 / 4])


@pytest.mark.parametrize("name", ["t5", "alibi"])
def test_the_bias_is_computed_once_for_all_rows(name):
    """Catches an array of the logits' size, and its gradient, for the offsets of every row."""
    shapes = []
    register_attention("noting", lambda q, k, v, bias=None, **_: shapes.append(bias.shape) or v)
    attention = MultiHeadAttention(tiny_config(positions=name), "noting")
    x, positions = np.zeros((B, T, D), np.float32), np.tile(np.arange(T), (B, 1))
    inputs = dict(mask=None, positions=positions, deterministic=True)
    jax.eval_shape(partial(attention.init, **inputs), jax.random.key(0), x, x)
    assert set(shapes) == {(1, N, T, T)}


def test_without_positions_attention_sees_a_set():
    """Catches an order that comes in by another way; a scheme puts it back."""
    patches = np.random.default_rng(0).normal(size=(2, 5, 6)).astype(np.float32)
    for name in ["none", "sinusoidal", *SCHEMES]:
        model = ImageClassifier(tiny_config(num_layers=1, positions=name, pooling="first"), 3)
        params = random_params(model.init, patches, deterministic=True)
        run = jax.jit(partial(model.apply, {"params": params}, deterministic=True))
        change = abs(run(patches[:, ::-1]) - run(patches)).max()
        assert (change < 1e-5) == (name == "none"), name
