"""Attention by random features, whose cost is linear in the length: the Performer's.

It is an attention function (see `attention_functions`) with one more option.
"""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from transformer.model.attention_functions import WeightsDropout, refuse_dropout
from transformer.model.primitives import Array

LEAST_FEATURE = 1e-6  # keeps sums above 0: a query that fits no feature sees all keys alike
LARGEST_EXPONENT = 40.0  # of a feature of a key, where no largest one can be known
CHUNK = 128  # positions that a causal pass takes at once


def performer_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
    num_features: int = 256,
) -> jax.Array:
    """Approximates equation (1) by positive orthogonal random features, FAVOR+ (arXiv 2009.14794).

    mask: broadcastable to [B, N, T, S]. As exp(q·k) is the mean of φ(q)·φ(k) over `num_features`
    features φ, the keys and values are summed up, φ(K)ᵀV, instead of multiplying each query with
    each key. A mask that differs between more than `CHUNK` queries has to be that of sentences in a
    row, each of which sees itself alone, with or without the later positions: then the sums run
    along the row. A step of a search has few keys, and any mask. Raises ValueError for dropout of
    the weights. Where the mask hides every key it returns zeros.

    The error grows with the exponential of |q + k|²: with 256 features and H = 16 it is 3% of the
    result where entries of q and k deviate by 1/4, 14% at 1/2, and 93% at 1, where it approximates
    nothing. A model has to be trained with it; weights of another attention do not carry over.
    """
    refuse_dropout("performer", dropout)
    query, key = (_log_features(x, num_features) for x in (query, key))
    query = _positive(query, jnp.max(query, axis=3, keepdims=True))
    dtype, value = value.dtype, value.astype(jnp.float32)
    value = jnp.pad(value, ((0, 0), (0, 0), (0, 0), (0, 1)), constant_values=1).swapaxes(1, 2)
    if mask is None or mask.shape[2] == 1 < query.shape[2]:
        is_visible = True if mask is None else mask.swapaxes(2, 3)
        key = jnp.where(is_visible, key, jnp.finfo(key.dtype).min)
        key = jnp.where(is_visible, _positive(key, jnp.max(key, axis=(2, 3), keepdims=True)), 0.0)
        sums = query @ (key.swapaxes(2, 3) @ value)
    else:  # nothing may depend on the largest key, which may be hidden
        key = _positive(jnp.minimum(key, LARGEST_EXPONENT), jnp.zeros(()))
        sums = _masked_sums(query, key, value, jnp.asarray(mask))
    attended = sums[..., :-1] / jnp.maximum(sums[..., -1:], 1e-9)
    return attended.swapaxes(1, 2).astype(dtype)


def _masked_sums(query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array) -> jax.Array:
    """Returns (φ(Q)φ(K)ᵀ under the mask)·V: [B, N, T, H] of [B, N, T, M], [B, N, S, M] and V."""
    length = query.shape[2]
    if key.shape[2] != length or export.is_symbolic_dim(length) or length <= CHUNK:
        return (query @ key.swapaxes(2, 3) * mask) @ value
    past, rows = _sums_of_past(query, key, value, mask, sees_itself=True), jnp.arange(length - 1)

    def sums_of_future() -> jax.Array:
        flipped = *(x[:, :, ::-1] for x in (query, key, value)), mask[:, :, ::-1, ::-1]
        return _sums_of_past(*flipped, sees_itself=False)[:, :, ::-1]

    sees_next = mask[:, :, rows, rows + 1].any()
    return past + jax.lax.cond(sees_next, sums_of_future, lambda: jnp.zeros_like(past))


def _sums_of_past(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array, *, sees_itself: bool
) -> jax.Array:
    """Returns `_masked_sums` over the keys before each query's own, with that if `sees_itself`.

    The queries of a chunk are multiplied with its own keys, and with the sums over earlier keys of
    the sentence that continues into it: with chunks of 3 and the sentences a a b b b b b c c, the
    third chunk, b c c, begins with the sums over four b. A sentence continues for queries that see
    the last key of the chunk before, and the sums hold what the last query of a chunk sees.
    """
    length = query.shape[2]
    rows = jnp.arange(length + -length % CHUNK).reshape(-1, CHUNK)  # [C, c]
    before = jnp.where(rows[:, :1], rows[:, :1] - 1, length)  # `length` stands for none
    fill = dict(mode="fill", fill_value=0)
    seen = mask.at[:, :, rows[:, :, None], rows[:, None]].get(**fill)  # [B, N=1, C, c, c]
    is_past = jnp.tril(jnp.ones((CHUNK, CHUNK), bool), 0 if sees_itself else -1)
    goes_on = mask.at[:, :, rows, before].get(**fill)  # [B, N=1, C, c]
    arrays = *(x.at[:, :, rows].get(**fill) for x in (query, key, value)), seen & is_past
    chunks = [jnp.moveaxis(x, 2, 0) for x in (*arrays, seen[..., -1, :], goes_on)]

    def add_chunk(sums: jax.Array, chunk: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        query, key, value, seen, is_kept, goes_on = chunk
        attended = (query @ key.swapaxes(2, 3) * seen) @ value
        attended += goes_on[..., None] * (query @ sums)
        kept = (key * is_kept[..., None]).swapaxes(2, 3) @ value
        return goes_on[..., -1, None, None] * sums + kept, attended

    zeros = jnp.zeros((*key.shape[:2], key.shape[3], value.shape[3]))
    attended = jnp.moveaxis(jax.lax.scan(add_chunk, zeros, chunks)[1], 0, 2)
    return attended.reshape(*query.shape[:2], -1, value.shape[3])[:, :, :length]


def _log_features(x: jax.Array, num_features: int) -> jax.Array:
    """Returns log φ(x) = ω·x − |x|²/2 of x [B, T, N, H] over the fourth root of H: [B, N, T, M]."""
    features = random_features(num_features, x.shape[-1])  # [M, H]
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
