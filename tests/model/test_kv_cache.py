"""The cache of a search: laid out, written and attended to as the rows it stands for."""

import jax
import numpy as np
import pytest

from transformer.config import ModelConfig
from transformer.model.attention import (
    KeysValues,
    attend_to_cache,
    empty_cache,
    from_cache_layout,
    to_cache_layout,
    write_to_cache,
)

N, H, V = 2, 8, 6  # heads; widths of a key and of a value


def make_rows(*shape):
    """Keys and values [..., N, width] of random rows."""
    rng = np.random.default_rng(0)
    return KeysValues(*(rng.normal(size=(*shape, N, n)).astype(np.float32) for n in (H, V)))


def test_columns_are_in_order():
    """Catches a column written over its neighbour."""
    rows, width = make_rows(2, 12), 3
    config = ModelConfig(num_heads=N, head_dim=H, value_dim=V)
    cache = empty_cache(config, 2, width, 4)
    for column in range(4):
        inside = slice(column * width, (column + 1) * width)
        new = KeysValues(*(a[:, inside] for a in rows))
        cache = write_to_cache(cache, to_cache_layout(new), column)
    jax.tree.map(np.testing.assert_array_equal, from_cache_layout(cache), rows)


@pytest.mark.parametrize(("batch_size", "width"), [(1, 1), (1, 4), (3, 20)])
def test_attention_is_equation_1(batch_size, width):
    """Catches each of the two ways to compute it, and a mask that hides from the wrong beam."""
    rng = np.random.default_rng(1)
    rows = make_rows(batch_size, 5 * width)
    query = rng.normal(size=(batch_size, width, N, H)).astype(np.float32)
    own = rng.random((batch_size, 1, width, 5 * width)) < 0.5
    own[..., 0] = True
    masks = own, own[:, :, :1]  # of self-attention, and of the source, which the beams share
    cache = to_cache_layout(rows)
    run = jax.jit(lambda *masks: [attend_to_cache(query * H**-0.5, cache, m) for m in masks])
    for mask, ours in zip(masks, run(*masks), strict=True):
        logits = np.einsum("BWNH,BSNH->BNWS", query, rows.key) / np.sqrt(H)
        exp = np.exp(logits) * mask
        weights = exp / exp.sum(-1, keepdims=True)
        expected = np.einsum("BNWS,BSNV->BWNV", weights, rows.value)
        np.testing.assert_allclose(ours, expected, atol=1e-5)
