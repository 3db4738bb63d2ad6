"""Attention whose logits have weights of their own, by the names of its authors.

These are attention functions (see `attention_functions`) that are modules.
"""

import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import export

from transformer.config import ModelConfig
from transformer.model.attention_functions import WeightsDropout, attend, attention_logits
from transformer.model.primitives import Array


def _scaled_identity(rng: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns the initial value of `GeneralAttention`, which is not random."""
    del rng
    return jnp.broadcast_to(jnp.eye(shape[-1]) * shape[-1] ** -0.5, shape)


class LearnedAttention(nn.Module):
    """Base of the attention functions softmax(logits)V: a subclass says what the logits are."""

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        """Returns float32 [B, N, T, S] of query [B, T, N, H] and key [B, S, N, H].

        mask: broadcastable to [B, N, T, S]; it is applied afterwards.
        """
        raise NotImplementedError

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
        logits = self.logits(query, key, mask)
        return attend(logits, value.swapaxes(1, 2), mask, dropout).swapaxes(1, 2)


class GeneralAttention(LearnedAttention):
    """softmax(QWKᵀ)V, a matrix W [N, H, H]: "general" of Luong et al. (arXiv 1508.04025).

    W starts as the unit matrix over √d_k, so that training starts from equation (1).
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        shape = (*query.shape[2:], key.shape[-1])
        matrix = self.param("matrix", _scaled_identity, shape).astype(query.dtype)
        query = jnp.einsum("BTNH,NHK->BTNK", query, matrix)
        return attention_logits(query.swapaxes(1, 2), key.swapaxes(1, 2))


class AdditiveAttention(LearnedAttention):
    """softmax(vᵀtanh(Q + K))V, a vector v [N, H]: Bahdanau et al. (arXiv 1409.0473).

    Their two matrices are the projections W^Q and W^K that each head has anyway. Every pair of
    positions costs H tanh: far more than a product, and why the paper prefers products (3.2.1).
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        init = nn.initializers.normal(query.shape[-1] ** -0.5)
        vector = self.param("vector", init, query.shape[2:])
        return _additive_logits(query, key, vector)


class ContentAttention(LearnedAttention):
    """softmax(β cos(Q, K))V, a sharpness β > 0 per head: Graves et al. (arXiv 1410.5401, 3.3.1).

    Their controller computes β anew for every step; here it is learned, from 10 on, as in Henry et
    al. (arXiv 2010.04245). No product exceeds β, however long the vectors become.
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        init = nn.initializers.constant(math.log(10))
        sharpness = jnp.exp(self.param("log_sharpness", init, query.shape[2:3]))
        query = _unit(query) * sharpness[:, None].astype(query.dtype)
        return attention_logits(query.swapaxes(1, 2), _unit(key).swapaxes(1, 2))


def _unit(x: jax.Array) -> jax.Array:
    """Returns x [..., H] at length 1, and 0 for 0."""
    squares = jnp.square(x.astype(jnp.float32)).sum(-1, keepdims=True)
    return x * jax.lax.rsqrt(squares + 1e-9).astype(x.dtype)


class LocationAttention(LearnedAttention):
    """softmax(QW)V, a matrix W [N, H, P]: "location" of Luong et al. (arXiv 1508.04025).

    Column p of W is for the key at position p of its sentence, whatever it holds: of the keys that
    a query may see, the first has position 0. For the mask x . x x the positions are 0 0 1 2.
    Raises ValueError for more keys than P = `config.max_positions`.
    """

    config: ModelConfig

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        num_keys, num_positions = key.shape[1], self.config.max_positions
        if export.is_symbolic_dim(num_keys) or num_keys > num_positions:
            raise ValueError(
                f"model.attention=location has weights for {num_positions} positions "
                f"(model.max_positions), not for {num_keys}: give it shorter texts, or train it "
                "with more."
            )
        init = nn.initializers.normal(query.shape[-1] ** -0.5)
        matrix = self.param("matrix", init, (*query.shape[2:], num_positions)).astype(query.dtype)
        logits = jnp.einsum("BTNH,NHP->BNTP", query, matrix, preferred_element_type=jnp.float32)
        if mask is None:
            return logits[..., :num_keys]
        positions = jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)
        positions = jnp.broadcast_to(positions, (*logits.shape[:3], num_keys))
        return jnp.take_along_axis(logits, positions, axis=-1)


@jax.checkpoint  # or the backward pass would keep the hidden layer, [B, N, T, S, H]
def _additive_logits(query: jax.Array, key: jax.Array, vector: jax.Array) -> jax.Array:
    """Returns vᵀtanh(Q + K) in float32, [B, N, T, S]."""
    query, key = (x.swapaxes(1, 2) for x in (query, key))
    hidden = jnp.tanh(query[:, :, :, None] + key[:, :, None]).astype(jnp.float32)
    return (hidden * vector[:, None, None]).sum(-1)
