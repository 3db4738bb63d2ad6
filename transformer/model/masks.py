"""Who may attend to whom: boolean masks, True = may attend, broadcastable to [B, N, T, S].

A row of ids may hold several sentences (packing). Its `segments` number them from 1; 0 is padding.
"""

import jax.numpy as jnp


def segment_mask(query_segments, key_segments):
    """Same sentence, and a real key: segments [B, T] and [B, S] -> [B, N=1, T, S]."""
    same = query_segments[:, :, None] == key_segments[:, None, :]
    return (same & (key_segments != 0)[:, None, :])[:, None]


def ancestor_mask(ancestors, length):
    """A hypothesis sees what its ancestors wrote: ancestors [B, W, T'] -> [B, N=1, W, length·W].

    The keys are places in order, and of each place the beams in order; ancestors[b, w, t] is the
    beam that wrote place t of hypothesis w, -1 if nobody has.
    """
    width = ancestors.shape[1]
    mask = ancestors[:, :, :length, None] == jnp.arange(width)
    return mask.reshape(*mask.shape[:2], -1)[:, None]


def causal_mask(length):
    """No position sees a later one: -> [B=1, N=1, T, S=T] (paper, section 3.2.3)."""
    return jnp.tril(jnp.ones((length, length), bool))[None, None]
