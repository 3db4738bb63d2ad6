"""Queries, keys and values at random, and attention to them in numpy."""

import numpy as np


def random_qkv(length, source_length=None, *, rows=2, heads=3, width=4, value_width=None, scale=1):
    """query [B, T, N, H], key [B, S, N, H] and value [B, S, N, value_width]."""
    rng, source_length = np.random.default_rng(0), source_length or length
    shapes = (length, width), (source_length, width), (source_length, value_width or width)
    return [(scale * rng.normal(size=(rows, n, heads, w))).astype(np.float32) for n, w in shapes]


def weigh(logits, value, mask=True):
    """softmax(logits)V of logits [B, N, T, S] and value [B, S, N, H]: [B, T, N, H].

    A query that the mask lets see nothing gets zeros.
    """
    exp = np.exp(logits - logits.max(-1, keepdims=True)) * (True if mask is None else mask)
    weights = exp / np.maximum(exp.sum(-1, keepdims=True), 1e-30)
    return np.einsum("BNTS,BSNH->BTNH", weights, value)


def equation_1(query, key, value, mask=True):
    """softmax(QKᵀ/√d_k)V: the paper's attention."""
    logits = np.einsum("BTNH,BSNH->BNTS", query, key) / np.sqrt(query.shape[-1])
    return weigh(logits, value, mask)
