"""Attention whose logits have weights of their own: "general" and "additive" attention.

These are attention functions (see `attention_functions`) that are modules.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.model.arrays import Array
from transformer.model.attention_functions import (
    WeightsDropout,
    attend,
    dot_product_attention,
)


def _scaled_identity(rng: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns the initial value of `GeneralAttention`, which is not random."""
    del rng
    return jnp.broadcast_to(jnp.eye(shape[-1]) * shape[-1] ** -0.5, shape)


class GeneralAttention(nn.Module):
    """softmax(QWKᵀ)V, a matrix W [N, H, H]: "general" of Luong et al. (arXiv 1508.04025).

    W starts as the unit matrix over √d_k, so that training starts from equation (1).
    """

    @nn.compact
    def __call__(
        self,
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        *,
        mask: Array | None = None,
        dropout: WeightsDropout | None = None,
    ) -> jax.Array:
        shape = (*query.shape[2:], key.shape[-1])
        matrix = self.param("matrix", _scaled_identity, shape).astype(query.dtype)
        query = jnp.einsum("BTNH,NHK->BTNK", query, matrix)
        return dot_product_attention(query, key, value, mask=mask, dropout=dropout)


class AdditiveAttention(nn.Module):
    """softmax(vᵀtanh(Q + K))V, a vector v [N, H]: Bahdanau et al. (arXiv 1409.0473).

    Their two matrices are the projections W^Q and W^K that each head has anyway. Every pair of
    positions costs H tanh: far more than a product, and why the paper prefers products (3.2.1).
    """

    @nn.compact
    def __call__(
        self,
        query: jax.Array,
        key: jax.Array,
        value: jax.Array,
        *,
        mask: Array | None = None,
        dropout: WeightsDropout | None = None,
    ) -> jax.Array:
        init = nn.initializers.normal(query.shape[-1] ** -0.5)
        vector = self.param("vector", init, query.shape[2:])
        logits = _additive_logits(query, key, vector)
        return attend(logits, value.swapaxes(1, 2), mask, dropout).swapaxes(1, 2)


@jax.checkpoint  # or the backward pass would keep the hidden layer, [B, N, T, S, H]
def _additive_logits(query: jax.Array, key: jax.Array, vector: jax.Array) -> jax.Array:
    """Returns vᵀtanh(Q + K) in float32, [B, N, T, S]."""
    query, key = (x.swapaxes(1, 2) for x in (query, key))
    hidden = jnp.tanh(query[:, :, :, None] + key[:, :, None]).astype(jnp.float32)
    return (hidden * vector[:, None, None]).sum(-1)
