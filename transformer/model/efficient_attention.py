"""Attention whose cost is linear in the length: a window, or random features.

These are attention functions (see `attention_functions`) with one more option each.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from transformer.model.arrays import Array
from transformer.model.attention_functions import (
    WeightsDropout,
    attend,
    attention_logits,
    scaled_dot_product_attention,
)

# Keeps sums above 0: a query that fits no feature gets the mean of the values.
LEAST_FEATURE = 1e-6


def local_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
    block: int,
) -> jax.Array:
    """Computes equation (1) under a window: a position sees itself and `block` on either side.

    query, key, value [B, T, N, H], mask broadcastable to [B, N, T, T]. The paper proposes it
    (section 4, "restricted"); it is computed in blocks as by Beltagy et al. (arXiv 2004.05150), and
    exact under any mask. The window moves with the position instead of lying on a grid of blocks,
    so a sentence is the same wherever it stands in a packed row. Raises ValueError if keys and
    queries differ in number.
    """
    length = query.shape[1]
    if key.shape[1] != length:
        raise ValueError(
            f"Local attention is of a sequence to itself: {length} queries and {key.shape[1]} keys "
            "have no positions in common."
        )
    # Up to three blocks there are no more products than in blocks; and the length of a program that
    # is exported for every length cannot be compared.
    if export.is_symbolic_dim(length) or length <= 3 * block:
        positions = jnp.arange(length)
        window = is_in_window(positions[:, None], positions, block)[None, None]
        mask = window if mask is None else window & mask
        return scaled_dot_product_attention(query, key, value, mask=mask, dropout=dropout)
    query, key, value = (_blocks(x, block) for x in (query, key, value))
    block_mask = _mask_of_blocks(mask, length, block)
    logits = attention_logits(query * query.shape[-1] ** -0.5, _with_neighbours(key))
    attended = attend(logits, _with_neighbours(value), block_mask, dropout)
    attended = attended.reshape(*attended.shape[:2], -1, attended.shape[-1])
    return attended[:, :, :length].swapaxes(1, 2)


def is_in_window(query_positions: Array, key_positions: Array | int, block: int) -> Array:
    """Returns whether a query sees a key under the window; the shapes broadcast."""
    return abs(query_positions - key_positions) <= block


def _blocks(x: jax.Array, block: int) -> jax.Array:
    """Splits [B, T, N, H] into C blocks [B, N, C, block, H]; zeros fill the last one.

    With C = 3 and block = 2, positions 0 1 2 3 4 become (0 1) (2 3) (4 .).
    """
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % block), (0, 0), (0, 0)))
    return x.reshape(x.shape[0], -1, block, *x.shape[2:]).transpose(0, 3, 1, 2, 4)


def _with_neighbours(blocks: jax.Array) -> jax.Array:
    """Puts every block between its two neighbours: [B, N, C, block, H] -> [B, N, C, 3·block, H].

    (0 1) (2 3) (4 .) become (. . 0 1 2 3) (0 1 2 3 4 .) (2 3 4 . . .).
    """
    padded = jnp.pad(blocks, ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0)))
    shifted = [padded[:, :, i : i + blocks.shape[2]] for i in range(3)]
    return jnp.concatenate(shifted, axis=3)


def _mask_of_blocks(mask: Array | None, length: int, block: int) -> Array:
    """Returns the window under a mask, broadcastable to [B, N, C, block, 3·block].

    mask: broadcastable to [B, N, T, T]. Query i and key j of block c are the positions c·block + i
    and (c-1)·block + j. For T = 5, block = 2 and no mask, x is seen and . is not:

        block    queries  keys                window
        0        0 1      -2 -1  0  1  2  3   . . x x x .    . . x x x x
        1        2 3       0  1  2  3  4  5   x x x x x .    . x x x x .
        2        4 5       2  3  4  5  6  7   x x x . . .    . x x . . .
    """
    starts = jnp.arange(0, length, block)[:, None, None]
    queries = starts + jnp.arange(block)[:, None]  # [C, block, 1]
    keys = starts + jnp.arange(-block, 2 * block)  # [C, 1, 3·block]
    window = is_in_window(queries, keys, block) & (keys >= 0) & (keys < length)
    if mask is None:
        return window
    # An axis of size 1 has index 0 only; clipped keys beyond the ends are outside the window.
    rows = jnp.clip(queries, 0, mask.shape[2] - 1)
    columns = jnp.clip(keys, 0, mask.shape[3] - 1)
    return window & jnp.asarray(mask)[:, :, rows, columns]


def performer_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
    num_features: int,
) -> jax.Array:
    """Approximates equation (1) by positive orthogonal random features, FAVOR+ (arXiv 2009.14794).

    mask: broadcastable to [B, N, T=1, S]. As exp(q·k) is the mean of φ(q)·φ(k) over `num_features`
    features φ, the keys and values are summed up once, φ(K)ᵀV, and no query meets a key. So a mask
    may hide keys from all queries only. Raises ValueError for a mask that differs between queries
    (a decoder's, or that of packed rows) and for dropout of the weights: it is for models without
    these, such as image transformers. Where the mask hides every key it returns zeros.

    The error grows with the exponential of |q + k|²: with 256 features and H = 16 it is 3% of the
    result where entries of q and k deviate by 1/4, 14% at 1/2, and 93% at 1, where it approximates
    nothing. A model has to be trained with it; weights of another attention do not carry over.
    """
    if mask is not None and mask.shape[2] != 1:
        raise ValueError(
            "Performer attention sums up the keys for all queries, so no mask may differ between "
            "queries, as in decoders and packed rows: use another model.attention."
        )
    if dropout is not None:
        raise ValueError(
            "Performer attention has no weights to drop: set model.attention_dropout_rate=0, or "
            "use another model.attention."
        )
    is_visible = True if mask is None else mask.swapaxes(2, 3)
    features = random_features(num_features, query.shape[-1])
    query, key = (_log_features(x, features) for x in (query, key))
    query = _positive(query, jnp.max(query, axis=3, keepdims=True))
    key = jnp.where(is_visible, key, jnp.finfo(key.dtype).min)
    key = jnp.where(is_visible, _positive(key, jnp.max(key, axis=(2, 3), keepdims=True)), 0.0)
    sums = jnp.einsum("BNSM,BSNH->BNMH", key, value.astype(jnp.float32))
    attended = jnp.einsum("BNTM,BNMH->BTNH", query, sums)
    total = jnp.einsum("BNTM,BNM->BTN", query, key.sum(2))
    return (attended / jnp.maximum(total, 1e-9)[..., None]).astype(value.dtype)


def _log_features(x: jax.Array, features: Array) -> jax.Array:
    """Returns log φ(x) = ω·x − |x|²/2 for x over the fourth root of d_k: [B, N, T, M].

    x [B, T, N, H], features ω [M, H].
    """
    x = x.astype(jnp.float32) * x.shape[-1] ** -0.25
    squares = (x**2).sum(-1).swapaxes(1, 2)[..., None]
    return jnp.einsum("BTNH,MH->BNTM", x, features) - squares / 2


def _positive(log_features: jax.Array, largest: jax.Array) -> jax.Array:
    """Returns exp, after a shift that cancels in the quotient of sums (appendix B)."""
    return jnp.exp(log_features - jax.lax.stop_gradient(largest)) + LEAST_FEATURE


@cache
def random_features(num_features: int, width: int) -> np.ndarray:
    """Returns Gaussian vectors [M, H], orthogonal in each group of H (arXiv 2009.14794, 2.4).

    They are always the same: they are no weights, and a checkpoint need not hold them.
    """
    rng = np.random.default_rng(0)

    def group() -> np.ndarray:
        directions, upper = np.linalg.qr(rng.normal(size=(width, width)))
        return (directions * np.sign(np.diag(upper))).T  # signs: no side is preferred

    directions = np.concatenate([group() for _ in range(-(-num_features // width))])
    lengths = np.linalg.norm(rng.normal(size=(num_features, width)), axis=1)
    return (directions[:num_features] * lengths[:, None]).astype(np.float32)
