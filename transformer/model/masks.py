"""Who may attend to whom: boolean masks, True = may attend, broadcastable to [B, N, T, S].

A row of ids may hold several sentences (packing). Its `segments` number them from 1; 0 is padding.
"""

import jax
import jax.numpy as jnp

from transformer.model.arrays import Array


def segment_mask(query_segments: Array, key_segments: Array) -> jax.Array:
    """Returns the mask [B, N=1, T, S] of keys in the same sentence as the query.

    query_segments [B, T], key_segments [B, S]. Padding is not attended to: for the query segments
    1 2 0 and the key segments 1 1 2 0 the mask is

        x x . .
        . . x .
        . . . .
    """
    is_same = query_segments[:, :, None] == key_segments[:, None, :]
    return (is_same & (key_segments != 0)[:, None, :])[:, None]


def ancestor_mask(ancestors: Array) -> jax.Array:
    """Returns the mask [B, N=1, W, L·W] of the keys that a hypothesis' ancestors wrote.

    ancestors [B, W, L]: the beam that wrote column c of hypothesis w, -1 where none of them has.
    The keys are ordered by column, and by beam within a column. For W = 2 beams, of which
    hypothesis 0 continued what beam 1 wrote in column 0, and L = 3:

        ancestors         keys (column, beam)  (0,0) (0,1) (1,0) (1,1) (2,0) (2,1)
        1  0 -1           hypothesis 0           .     x     x     .     .     .
        1  1 -1           hypothesis 1           .     x     .     x     .     .
    """
    width = ancestors.shape[1]
    mask = ancestors[..., None] == jnp.arange(width)
    return mask.reshape(*mask.shape[:2], -1)[:, None]


def causal_mask(length: int) -> jax.Array:
    """Returns the mask [B=1, N=1, T, S=T] that hides later positions (paper, section 3.2.3)."""
    return jnp.tril(jnp.ones((length, length), bool))[None, None]
