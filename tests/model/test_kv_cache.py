"""The cache of a search: laid out, written, lengthened, attended to as the rows it stands for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from transformer.model.attention_functions import scaled_dot_product_attention
from transformer.model.kv_cache import (
    attend_to_cache,
    empty_cache,
    from_cache_layout,
    lengthen,
    to_cache_layout,
    write,
)

N, H, V = 2, 8, 6  # heads; widths of a key and of a value


def make_rows(*shape):
    """Keys and values [..., N, width] of made-up rows."""
    rng = np.random.default_rng(0)
    widths = {"key": H, "value": V}
    return {
        name: jnp.asarray(rng.normal(size=(*shape, N, width)), jnp.float32)
        for name, width in widths.items()
    }


def test_rows_come_back_from_a_cache():
    """Catches an axis that ends up in another's place."""
    rows = make_rows(3, 5)
    key, value = from_cache_layout(to_cache_layout(rows))
    np.testing.assert_array_equal(key, rows["key"])
    np.testing.assert_array_equal(value, rows["value"])


def test_places_are_in_order_whatever_was_lengthened_between():
    """Catches a place written over its neighbour, and keys that move when room is made."""
    rows, width, places = make_rows(2, 12), 3, 4
    cache = empty_cache(2, width, 2, N, (H, V), jnp.float32)
    for place in range(places):
        if place == 2:
            cache = lengthen(cache, width * 2)
        inside = slice(place * width, (place + 1) * width)
        cache = write(
            cache, to_cache_layout({name: a[:, inside] for name, a in rows.items()}), place
        )
    for found, name in zip(from_cache_layout(cache), ("key", "value"), strict=True):
        np.testing.assert_array_equal(found, rows[name])


@pytest.mark.parametrize("beams", [1, 4, 20])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("backend", ["cpu", "gpu"])
def test_attention_is_equation_1(beams, batch_size, backend, monkeypatch):
    """Catches each of the three ways to compute it, and a mask that hides from the wrong beam."""
    rng = np.random.default_rng(1)
    rows = make_rows(batch_size, 5 * beams)
    query = jnp.asarray(rng.normal(size=(batch_size, beams, N, H)), jnp.float32)
    own = rng.random((batch_size, 1, beams, 5 * beams)) < 0.5
    own[..., 0] = True
    shared = own[:, :, :1]
    expected = [
        scaled_dot_product_attention(query, rows["key"], rows["value"], mask=mask)
        for mask in (own, shared)
    ]
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    for mask, value in zip((own, shared), expected, strict=True):
        attend = jax.jit(lambda q, cache, mask: attend_to_cache(q * H**-0.5, cache, mask))
        np.testing.assert_allclose(attend(query, to_cache_layout(rows), mask), value, atol=1e-5)
