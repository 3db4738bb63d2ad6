"""Keys and values that the steps of a search attend to, laid out for few queries at a time.

The products of a step then run along rows without copying them. Self-attention of W beams over L
columns has S = L·W keys, ordered by column, and by beam within a column: beam w's key in column c
has index c·W + w, so a step writes one contiguous slice. For W = 2 and L = 3 a step into column 1
writes the indices 2 and 3:

    index    0 1   2 3   4 5
    column   0 0   1 1   2 2
    beam     0 1   0 1   0 1

All sentences of a batch write one column at a time, whatever their positions (see `decoding`).

Attention to the source has the S keys of the sentence, which all beams share.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from transformer.model.attention_functions import attend, masked_softmax


class KeysValues(NamedTuple):
    """Keys and values in the layout of an attention function."""

    key: jax.Array  # [B, S, N, H]
    value: jax.Array  # [B, S, N, H]


class KVCache(NamedTuple):
    """Keys and values in the layout of a search step."""

    key: jax.Array  # [B, N, H, S]
    value: jax.Array  # [B, N, S, H]


def empty_cache(
    batch_size: int,
    num_beams: int,
    length: int,
    num_heads: int,
    widths: tuple[int, int],
    dtype: jnp.dtype,
) -> KVCache:
    """Returns zeros for `length` columns; widths: those of a key and of a value."""
    key_width, value_width = widths
    num_keys = length * num_beams
    return KVCache(
        key=jnp.zeros((batch_size, num_heads, key_width, num_keys), dtype),
        value=jnp.zeros((batch_size, num_heads, num_keys, value_width), dtype),
    )


def to_cache_layout(keys_values: KeysValues) -> KVCache:
    """Returns keys and values [B, S, N, H] in the layout of a cache."""
    return KVCache(keys_values.key.transpose(0, 2, 3, 1), keys_values.value.swapaxes(1, 2))


def from_cache_layout(cache: KVCache) -> KeysValues:
    """Returns the inverse of `to_cache_layout`."""
    return KeysValues(cache.key.transpose(0, 3, 1, 2), cache.value.swapaxes(1, 2))


def write(cache: KVCache, new: KVCache, column: jax.Array | int) -> KVCache:
    """Returns the cache with `new`, which holds one position of every beam, in `column`."""
    start = column * new.key.shape[-1]
    update = jax.lax.dynamic_update_slice_in_dim
    return KVCache(
        key=update(cache.key, new.key, start, axis=3),
        value=update(cache.value, new.value, start, axis=2),
    )


def attend_to_cache(
    query: jax.Array, cache: KVCache, mask: jax.Array, bias: jax.Array | None = None
) -> jax.Array:
    """Returns softmax(QKᵀ + bias)V, the softmax in float32, of query [B, W, N, H]: [B, W, N, H].

    mask: boolean, broadcastable to [B, N=1, W, S]; bias: float32, to [B, N, W, S].
    """
    key, value = cache
    if query.shape[1] == 1:  # products of a vector: without the axis they are a third faster
        logits = jnp.einsum("BNH,BNHS->BNS", query[:, 0], key, preferred_element_type=jnp.float32)
        logits = logits if bias is None else logits + bias[:, :, 0]
        weights = masked_softmax(logits, mask[:, :, 0]).astype(value.dtype)
        return jnp.einsum("BNS,BNSH->BNH", weights, value)[:, None]
    logits = jnp.einsum("BWNH,BNHS->BNWS", query, key, preferred_element_type=jnp.float32)
    logits = logits if bias is None else logits + bias
    return attend(logits, value, mask, None).swapaxes(1, 2)
