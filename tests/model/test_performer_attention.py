"""The Performer's error is measured; under a mask its sums are those of the pairs that it shows."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.attention import equation_1, random_qkv, weigh
from transformer.model import performer_attention as performer
from transformer.model.performer_attention import performer_attention, random_features

H = 4


def test_the_performers_error_falls_with_its_features():
    """Catches an approximation of something else: its error would stay where it is."""
    query, key, value = random_qkv(64, width=16, heads=4)
    qkv = query / 2, key / 2, value
    expected, run = equation_1(*qkv), jax.jit(performer_attention, static_argnames="num_features")
    squares = [((run(*qkv, num_features=n) - expected) ** 2).mean() for n in (16, 256, 4096)]
    errors = [float(np.sqrt(square / (expected**2).mean())) for square in squares]
    assert errors == sorted(errors, reverse=True), errors
    assert errors[1] < 0.2, errors  # 0.14
    assert errors[-1] < errors[0] / 6, errors  # 256 times the features: a 16th, if all were alike


def test_the_performer_sees_exactly_the_keys_it_may():
    """Catches a padded key that is summed up, or that sets the scale of the others."""
    query, key, value = random_qkv(12)
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


def test_the_performer_is_finite():
    """Catches exponentials that overflow, sums that vanish, and a row without any key."""
    mask = (np.arange(12) < [[12], [0]])[:, None, None]
    run = partial(performer_attention, mask=mask, num_features=32)
    squares_and_gradient = jax.jit(jax.value_and_grad(lambda qkv: (run(*qkv) ** 2).sum()))
    for scale in (0.0, 1.0, 30.0):
        total, gradients = squares_and_gradient(random_qkv(12, scale=scale))
        assert np.isfinite(total) and all(np.isfinite(g).all() for g in gradients)


def masked_by_hand(query, key, value, mask, num_features):
    """The Performer's weights of all pairs, under the mask: φ(q)·φ(k) / Σ φ(q)·φ(k)."""
    query, key = query * H**-0.25, key * H**-0.25
    products = [x @ random_features(num_features, H).T for x in (query, key)]
    squares = [(x**2).sum(-1, keepdims=True) / 2 for x in (query, key)]
    phi = [np.exp(product - square) for product, square in zip(products, squares, strict=True)]
    return weigh(np.log(np.einsum("BTNM,BSNM->BNTS", *phi)), value, mask)


@pytest.mark.parametrize("chunk", [8, 64])
def test_sums_along_the_row_are_those_of_the_pairs_that_the_mask_shows(monkeypatch, chunk):
    """Catches a future that is seen, a neighbour's sum, and a chunk's end that is lost."""
    monkeypatch.setattr(performer, "CHUNK", chunk)
    qkv, length = random_qkv(37), 37
    segments = np.array([np.repeat([1, 2, 3], [11, 13, 13]), np.repeat([1, 2, 3], [1, 16, 20])])
    same = (segments[:, :, None] == segments[:, None])[:, None]
    causal = np.tril(np.ones((length, length), bool))
    given = [same, same & causal, causal[None, None]]
    run = jax.jit(lambda masks: [performer_attention(*qkv, mask=m, num_features=16) for m in masks])
    for mask, ours in zip(given, run(given), strict=True):
        np.testing.assert_allclose(ours, masked_by_hand(*qkv, mask, 16), atol=2e-5)


def test_gradients_of_the_sums_along_the_row(monkeypatch):
    """Catches NaN of queries that see nothing, and a gradient that ends with its chunk."""
    qkv, causal = random_qkv(20), np.tril(np.ones((20, 20), bool))
    mask = (causal & (np.arange(20) < 18))[None, None]  # the last two are padding
    mask[..., 18:, :] = False

    def gradients(chunk):
        monkeypatch.setattr(performer, "CHUNK", chunk)

        def total(qkv):
            return (performer_attention(*qkv, mask=mask, num_features=16) ** 2).sum()

        return jax.jit(jax.grad(total))(qkv)

    for ours, expected in zip(gradients(8), gradients(64), strict=True):
        assert np.isfinite(ours).all() and np.any(ours[:, 0])
        np.testing.assert_allclose(ours, expected, atol=1e-5)


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
