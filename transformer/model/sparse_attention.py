"""Attention to few keys: a window, alone (`local`) or with keys far away (`strided`, `fixed`).

These are attention functions (see `attention_functions`) with one more option, `block`: l below.
They are exact under any mask, and a sentence is the same wherever it stands in a packed row.
"""

from collections.abc import Callable
from functools import partial
from itertools import accumulate

import jax
import jax.numpy as jnp
from jax import export

from transformer.model.attention_functions import (
    WeightsDropout,
    mask_logits,
    scaled_dot_product_attention,
)
from transformer.model.primitives import Array


def is_in_window(query_positions: Array, key_positions: Array, block: int) -> Array:
    """Returns whether a query sees a key at most l positions away; the shapes broadcast."""
    return abs(query_positions - key_positions) <= block


def is_strided(query_positions: Array, key_positions: Array, block: int) -> Array:
    """Returns whether a key is in the window, or at a distance that is a multiple of l."""
    is_near = is_in_window(query_positions, key_positions, block)
    return is_near | ((query_positions - key_positions) % block == 0)


def is_fixed(query_positions: Array, key_positions: Array, block: int) -> Array:
    """Returns whether both are in one block of l, or the key is among the last of its block.

    These are l/16, but at least one: the paper's 8 of 128.
    """
    is_near = query_positions // block == key_positions // block
    return is_near | (key_positions % block >= block - max(1, block // 16))


PATTERNS = {"local": is_in_window, "strided": is_strided, "fixed": is_fixed}


def sparse_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
    block: int,
    pattern: str,
) -> jax.Array:
    """Computes equation (1) where the mask and `PATTERNS[pattern]` let a query see a key.

    query, key, value [B, T, N, H], mask broadcastable to [B, N, T, T]. The window is proposed in
    the paper (section 4, "restricted"), the others by Child et al. (arXiv 1904.10509), here with
    both parts of a pattern in every head and, where the mask is not causal, later positions too.
    In rows of more than three blocks a query is multiplied with the keys of its block and of both
    neighbours, as in Beltagy et al. (arXiv 2004.05150), and with the keys farther away that its
    pattern shows: T/l of `strided`, T/16 of `fixed`.
    Raises ValueError if keys and queries differ in number.
    """
    length = query.shape[1]
    if key.shape[1] != length:
        raise ValueError(
            f"model.attention={pattern} is of a sequence to itself: {length} queries and "
            f"{key.shape[1]} keys have no positions in common."
        )
    mask = jnp.ones((1, 1, 1, 1), bool) if mask is None else mask
    mask = jnp.broadcast_to(mask, (*mask.shape[:2], length, length))
    positions = jnp.arange(length)[None]
    if pattern == "fixed":
        positions = _positions_in_blocks(mask, block)
    is_seen = partial(PATTERNS[pattern], block=block)
    # Up to three blocks there are no more products than in blocks; and the length of a program that
    # is exported for every length cannot be compared.
    if export.is_symbolic_dim(length) or length <= 3 * block:
        mask = mask & is_seen(positions[:, :, None], positions[:, None])[:, None]
        return scaled_dot_product_attention(query, key, value, mask=mask, dropout=dropout)
    blocks = [_blocks(x, block) for x in (query * query.shape[-1] ** -0.5, key, value)]
    queries = jnp.arange(length + -length % block).reshape(-1, block, 1)  # [C, l, 1]

    def mask_of_far(keys: jax.Array) -> Array:
        is_far = abs(queries // block - keys // block) > 1
        return is_far & _look_up(mask, queries, keys)

    # Of each part: the axes of its keys and values, these two, and which of them are seen, [B, N,
    # C, l, S].
    near = [_with_neighbours(x) for x in blocks[1:]]
    parts = [("BNCSH", near, _mask_of_near(mask, positions, block, is_seen))]
    if pattern == "strided":  # block by block, the keys at the query's place
        parts.append(("BNSTH", blocks[1:], mask_of_far(queries[..., 0].T)))
    if pattern == "fixed":  # the last keys of all blocks: as many as a row of this length can have
        num_last = max(1, block // 16)
        find = partial(jnp.nonzero, size=num_last * length // block, fill_value=length)
        rows = jax.vmap(find)(positions % block >= block - num_last)[0]  # [B, S]
        columns = jnp.arange(len(query))[:, None], jnp.minimum(rows, length - 1)
        far = [jnp.asarray(x)[columns].swapaxes(1, 2) for x in (key, value)]
        parts.append(("BNSH", far, mask_of_far(rows[:, None, None, None])))
    attended = _attend_to_parts(blocks[0], parts, dropout)
    attended = attended.reshape(*attended.shape[:2], -1, attended.shape[-1])
    return attended[:, :, :length].swapaxes(1, 2)


def _attend_to_parts(
    query: jax.Array,
    parts: list[tuple[str, list[jax.Array], Array]],
    dropout: WeightsDropout | None,
) -> jax.Array:
    """Returns softmax(QKᵀ)V of blocks of queries [B, N, C, T, H] over the keys of all parts."""
    logits = [
        jnp.einsum(f"BNCTH,{axes}->BNCTS", query, key, preferred_element_type=jnp.float32)
        for axes, (key, _), _ in parts
    ]
    seen = [jnp.broadcast_to(part[2], x.shape) for part, x in zip(parts, logits, strict=True)]
    masked = mask_logits(jnp.concatenate(logits, -1), jnp.concatenate(seen, -1))
    weights = jax.nn.softmax(masked).astype(query.dtype)
    weights = weights if dropout is None else dropout(weights)
    *ends, _ = accumulate(x.shape[-1] for x in logits)
    first, *others = (
        jnp.einsum(f"BNCTS,{axes}->BNCTH", x, value)
        for x, (axes, (_, value), _) in zip(jnp.split(weights, ends, -1), parts, strict=True)
    )
    return sum(others, first)


def _positions_in_blocks(mask: jax.Array, block: int) -> jax.Array:
    """Returns positions [B, T] for `is_fixed`, whose blocks begin anew with each sentence.

    B is 1 where the mask is the same for all rows. A sentence begins where a query does not see the
    key before its own. A position is that of the row where its block begins, times l, and its place
    in the block. For l = 2:

        sentence        a  a  a  b  b  b
        block begins    0  0  2  3  3  5
        place           0  1  0  0  1  0
        position        0  1  4  6  7 10
    """
    rows = jnp.arange(mask.shape[3])
    begins = ~jnp.any(_look_up(mask, rows, rows - 1), axis=1)
    place = (rows - jax.lax.cummax(jnp.where(begins, rows, 0), axis=1)) % block
    return (rows - place) * block + place


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


def _mask_of_near(
    mask: jax.Array, positions: jax.Array, block: int, is_seen: Callable[[Array, Array], Array]
) -> Array:
    """Returns which neighbours are seen, broadcastable to [B, N, C, l, 3·l].

    mask [B, N, T, T]; positions [B, T]: see `is_seen`. Query i and key j of block
    c stand at c·l + i and (c-1)·l + j of the row; a query beyond its end stands for the last. For
    the window, T = 5, l = 2 and no mask, x is seen and . is not:

        block    queries  keys                window
        0        0 1      -2 -1  0  1  2  3   . . x x x .    . . x x x x
        1        2 3       0  1  2  3  4  5   x x x x x .    . x x x x .
        2        4 5       2  3  4  5  6  7   x x x . . .    x x x . . .
    """
    length = positions.shape[1]
    starts = jnp.arange(0, length, block)[:, None, None]
    queries = starts + jnp.arange(block)[:, None]  # [C, l, 1]
    keys = starts + jnp.arange(-block, 2 * block)  # [C, 1, 3·l]
    query_positions, key_positions = (
        positions[:, None, jnp.clip(x, 0, length - 1)] for x in (queries, keys)
    )
    return is_seen(query_positions, key_positions) & _look_up(mask, queries, keys)


def _look_up(mask: jax.Array, queries: jax.Array, keys: jax.Array) -> jax.Array:
    """Returns the mask at these rows and columns, [B, N, …]: False for keys outside the row.

    A query behind the row's end has the last one's. The indices broadcast to […], or to [B, N, …].
    """
    heads = jnp.arange(mask.shape[1]).reshape(-1, *[1] * queries.ndim)
    rows = jnp.arange(mask.shape[0]).reshape(-1, *[1] * heads.ndim)
    last = mask.shape[3] - 1
    seen = mask[rows, heads, jnp.clip(queries, 0, last), jnp.clip(keys, 0, last)]
    return seen & (keys >= 0) & (keys <= last)
