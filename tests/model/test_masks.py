"""Masks, drawn: a row per query, a column per key, x where it may attend."""

import jax.numpy as jnp

from transformer.model.attention import ancestor_mask, causal_mask, segment_mask


def picture(mask):
    """A mask [B=1, N=1, T, S] as lines of x and dots."""
    assert mask.shape[:2] == (1, 1) and mask.dtype == bool
    return ["".join("x" if may else "." for may in row) for row in mask[0, 0].tolist()]


def test_segments_see_their_own_sentence_only():
    """Catches leaks between packed sentences, attention to padding, and swapped T and S."""
    mask = segment_mask(jnp.array([[1, 1, 2, 0]]), jnp.array([[1, 1, 1, 2, 2, 0]]))
    assert picture(mask) == [
        "xxx...",
        "xxx...",
        "...xx.",
        "......",
    ]


def test_a_hypothesis_sees_what_its_ancestors_wrote():
    """Catches columns and beams in the wrong order, and keys that are not written yet.

    The example of the docstring.
    """
    ancestors = jnp.array([[[1, 0, -1], [1, 1, -1]]])  # [B=1, W=2, L=3]
    assert picture(ancestor_mask(ancestors)) == [
        ".xx...",
        ".x.x..",
    ]


def test_causal_within_packed_sentences():
    """Catches a combination by "or", and a second sentence that sees the first one's past."""
    segments = jnp.array([[1, 1, 2, 2, 2, 0]])
    assert picture(segment_mask(segments, segments) & causal_mask(6)) == [
        "x.....",
        "xx....",
        "..x...",
        "..xx..",
        "..xxx.",
        "......",
    ]
