"""Attention whose cost grows with the length and not with its square: a window, or a sketch.

They are called as those of `alignment` are, and refuse what they cannot honour with ValueError.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from transformer.model.attention_functions import align, attend, scaled_dot_product_attention

LEAST_FEATURE = (
    1e-6  # keeps a sum above 0; a query that no feature fits gets the mean of the values
)


def local_attention(query, key, value, *, mask=None, dropout=None, block):
    """Equation (1) under a window: a place sees `block` places to either side, and itself.

    query, key, value [B, T, N, H]; mask to [B, N, T, T]. Returns [B, T, N, H]. The paper proposes
    it (section 4, "restricted"); computed in blocks as Beltagy et al. do (arXiv 2004.05150). It is
    exact, whatever the mask. The window moves with the place instead of lying on a grid of blocks,
    so that a sentence is the same wherever it stands in a packed row.
    """
    length = query.shape[1]
    if key.shape[1] != length:
        raise ValueError(
            f"Local attention is of a sequence to itself: {length} queries and {key.shape[1]} keys "
            "have no places in common."
        )
    if length <= 3 * block:  # no more products than in blocks
        places = jnp.arange(length)
        seen = is_in_window(places[:, None], places, block)[None, None]
        mask = seen if mask is None else seen & mask
        return scaled_dot_product_attention(query, key, value, mask=mask, dropout=dropout)
    query, key, value = (_blocks(x, block) for x in (query, key, value))
    seen = _mask_of_blocks(mask, length, block)
    logits = align(query * query.shape[-1] ** -0.5, _neighbourhoods(key))
    attended = attend(logits, _neighbourhoods(value), seen, dropout)
    attended = attended.reshape(*attended.shape[:2], -1, attended.shape[-1])
    return attended[:, :, :length].swapaxes(1, 2)


def is_in_window(places, others, block):
    """Whether local attention sees from `places` to `others`: integers of shapes that broadcast."""
    return abs(places - others) <= block


def _blocks(x, block):
    """[B, T, N, H] -> [B, N, C, block, H], C blocks; zeros fill the last one."""
    x = jnp.pad(x, ((0, 0), (0, -x.shape[1] % block), (0, 0), (0, 0)))
    return x.reshape(x.shape[0], -1, block, *x.shape[2:]).transpose(0, 3, 1, 2, 4)


def _neighbourhoods(blocks):
    """Every block between its two neighbours: [B, N, C, block, H] -> [B, N, C, 3·block, H]."""
    padded = jnp.pad(blocks, ((0, 0), (0, 0), (1, 1), (0, 0), (0, 0)))
    shifted = [padded[:, :, i : i + blocks.shape[2]] for i in range(3)]
    return jnp.concatenate(shifted, axis=3)


def _mask_of_blocks(mask, length, block):
    """A mask to [B, N, T, T] -> the window under it, to [B, N, C, block, 3·block]."""
    starts = jnp.arange(0, length, block)[:, None, None]
    queries = starts + jnp.arange(block)[:, None]  # [C, block, 1]
    keys = starts + jnp.arange(-block, 2 * block)  # [C, 1, 3·block]
    seen = is_in_window(queries, keys, block) & (keys >= 0) & (keys < length)
    if mask is None:
        return seen
    rows, columns = (
        jnp.clip(places, 0, size - 1)
        for places, size in zip((queries, keys), mask.shape[2:], strict=True)
    )
    return seen & jnp.asarray(mask)[:, :, rows, columns]


def performer_attention(query, key, value, *, mask=None, dropout=None, num_features):
    """Equation (1) about: FAVOR+, positive orthogonal random features (arXiv 2009.14794).

    query [B, T, N, H]; key, value [B, S, N, H]; mask to [B, N, T=1, S]. Returns [B, T, N, H]. As
    exp(q·k) is the mean of φ(q)·φ(k) over `num_features` features φ, the keys and values are summed
    up once, φ(K)ᵀV, and no query meets a key. So a mask may hide keys from all queries, and a mask
    that differs between them (a decoder's, packed rows) is refused, as is dropout of the weights:
    it is for models without such, as image transformers. Without a key to see it returns zeros.

    The error grows with the exponential of |q + k|²: with 256 features and H = 16 it is 3% of the
    result where entries of q and k deviate by 1/4, 14% at 1/2, and 93% at 1, where it sketches
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
    seen = True if mask is None else mask.swapaxes(2, 3)
    features = random_features(num_features, query.shape[-1])
    query, key = (_log_features(x, features) for x in (query, key))
    query = _positive(query, jnp.max(query, axis=3, keepdims=True))
    key = jnp.where(seen, key, jnp.finfo(key.dtype).min)
    key = jnp.where(seen, _positive(key, jnp.max(key, axis=(2, 3), keepdims=True)), 0.0)
    sums = jnp.einsum("BNSM,BSNH->BNMH", key, value.astype(jnp.float32))
    attended = jnp.einsum("BNTM,BNMH->BTNH", query, sums)
    total = jnp.einsum("BNTM,BNM->BTN", query, key.sum(2))
    return (attended / jnp.maximum(total, 1e-9)[..., None]).astype(value.dtype)


def _log_features(x, features):
    """log φ(x) = ω·x − |x|²/2 with x over the fourth root of d_k: [B, T, N, H] -> [B, N, T, M]."""
    x = x.astype(jnp.float32) * x.shape[-1] ** -0.25
    squares = (x**2).sum(-1).swapaxes(1, 2)[..., None]
    return jnp.einsum("BTNH,MH->BNTM", x, features) - squares / 2


def _positive(log_features, largest):
    """exp, after a shift that the quotient of sums does not notice (Choromanski et al., app. B)."""
    return jnp.exp(log_features - jax.lax.stop_gradient(largest)) + LEAST_FEATURE


@cache
def random_features(num_features, width):
    """[M, H]: Gaussian vectors, orthogonal within each group of H (arXiv 2009.14794, section 2.4).

    Always the same ones: they are no weights, and a checkpoint need not hold them.
    """
    rng = np.random.default_rng(0)

    def group():
        directions, upper = np.linalg.qr(rng.normal(size=(width, width)))
        return (directions * np.sign(np.diag(upper))).T  # without the signs they prefer a side

    directions = np.concatenate([group() for _ in range(-(-num_features // width))])
    lengths = np.linalg.norm(rng.normal(size=(num_features, width)), axis=1)
    return np.float32(directions[:num_features] * lengths[:, None])
