"""Attention functions that are modules (see `attention_functions`): with weights, or with draws.

The first have logits with weights of their own, by the names of their authors. The hard ones take
the value of one position, drawn in training (Xu et al. 2015). A draw has no gradient:
`HardAttention` has that of the score function (REINFORCE, Williams 1992), unbiased, by way of the
loss in `tasks.translation`; `HardGumbelAttention` a biased one of less variance.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import export

from transformer.model.attention_functions import WeightsDropout, attend, attention_logits
from transformer.model.primitives import Array, hash_of_index


class AttentionModule(nn.Module):
    """softmax(logits)V of the scaled products: a subclass has other logits, or other weights."""

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        """Returns float32 [B, N, T, S] of query [B, T, N, H] and key [B, S, N, H].

        mask: broadcastable to [B, N, T, S]; it is applied afterwards.
        """
        del mask
        return attention_logits(query * query.shape[-1] ** -0.5, key)

    def softmax(self, logits: jax.Array, *, deterministic: bool) -> jax.Array:
        """Returns the weights of the values [B, N, T, S] of logits [B, N, T, S], masked."""
        del deterministic
        return jax.nn.softmax(logits)

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
        softmax = partial(self.softmax, deterministic=dropout is None)
        logits = self.logits(query, key, mask)
        return attend(logits, value.swapaxes(1, 2), mask, dropout, softmax)


class GeneralAttention(AttentionModule):
    """softmax(QWKᵀ)V, a matrix W [N, H, H]: "general" of Luong et al. (arXiv 1508.04025).

    W starts as the unit matrix over √d_k, so that training starts from equation (1).
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        num_heads, width = query.shape[2:]
        identity = jnp.broadcast_to(jnp.eye(width) * width**-0.5, (num_heads, width, width))
        matrix = self.param("matrix", lambda rng: identity).astype(query.dtype)
        query = jnp.einsum("BTNH,NHK->BTNK", query, matrix)
        return attention_logits(query, key)


class AdditiveAttention(AttentionModule):
    """softmax(vᵀtanh(Q + K))V, a vector v [N, H]: Bahdanau et al. (arXiv 1409.0473).

    Their two matrices are the projections W^Q and W^K that each head has anyway. Every pair of
    positions costs H tanh: far more than a product, and why the paper prefers products (3.2.1).
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        init = nn.initializers.normal(query.shape[-1] ** -0.5)
        vector = self.param("vector", init, query.shape[2:])

        @jax.checkpoint  # or the backward pass would keep the hidden layer, [B, N, T, S, H]
        def logits(query: jax.Array, key: jax.Array, vector: jax.Array) -> jax.Array:
            hidden = jnp.tanh(query[:, :, :, None] + key[:, :, None]).astype(jnp.float32)
            return (hidden * vector[:, None, None]).sum(-1)

        return logits(query.swapaxes(1, 2), key.swapaxes(1, 2), vector)


class ContentAttention(AttentionModule):
    """softmax(β cos(Q, K))V, a sharpness β > 0 per head: Graves et al. (arXiv 1410.5401, 3.3.1).

    Their controller computes β anew for every step; here it is learned, from 10 on, as in Henry et
    al. (arXiv 2010.04245). No product exceeds β, however long the vectors become.
    """

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        init = nn.initializers.constant(math.log(10))
        sharpness = jnp.exp(self.param("log_sharpness", init, query.shape[2:3]))
        query = _unit(query) * sharpness[:, None].astype(query.dtype)
        return attention_logits(query, _unit(key))


def _unit(x: jax.Array) -> jax.Array:
    """Returns x [..., H] at length 1, and 0 for 0."""
    squares = jnp.square(x.astype(jnp.float32)).sum(-1, keepdims=True)
    return x * jax.lax.rsqrt(squares + 1e-9).astype(x.dtype)


class LocationAttention(AttentionModule):
    """softmax(QW)V, a matrix W [N, H, P]: "location" of Luong et al. (arXiv 1508.04025).

    Column p of W is for the key at position p of its sentence, whatever it holds: of the keys that
    a query may see, the first has position 0. For the mask x . x x the positions are 0 0 1 2.
    Raises ValueError for more keys than P = `num_positions`, `config.max_positions`.
    """

    num_positions: int

    def logits(self, query: jax.Array, key: jax.Array, mask: Array | None) -> jax.Array:
        num_keys = key.shape[1]
        if export.is_symbolic_dim(num_keys) or num_keys > self.num_positions:
            raise ValueError(
                f"model.attention=location has weights for {self.num_positions} positions "
                f"(model.max_positions), not for {num_keys}: give it shorter texts, or train it "
                "with more."
            )
        init = nn.initializers.normal(query.shape[-1] ** -0.5)
        matrix = self.param("matrix", init, (*query.shape[2:], self.num_positions))
        matrix = matrix.astype(query.dtype)
        logits = jnp.einsum("BTNH,NHP->BNTP", query, matrix, preferred_element_type=jnp.float32)
        if mask is None:
            return logits[..., :num_keys]
        positions = jnp.maximum(jnp.cumsum(mask, axis=-1) - 1, 0)
        positions = jnp.broadcast_to(positions, (*logits.shape[:3], num_keys))
        return jnp.take_along_axis(logits, positions, axis=-1)


class HardAttention(AttentionModule):
    """The value at one position s, which is drawn from softmax(QKᵀ/√d_k) for each query and head.

    It is arXiv 1502.03044, section 4.1. `dropout` is given only in training, and drops nothing
    here; without it s is the likeliest position, so that nothing is drawn when translating. In
    training a row of the batch has soft attention instead with probability 1/2, as there an image.
    The collection "samples" receives log p(s) [B, N, T] as "log_probs", 0 where nothing is drawn.
    """

    def softmax(self, logits: jax.Array, *, deterministic: bool) -> jax.Array:
        log_probs = jax.nn.log_softmax(logits)
        if deterministic:
            return _one_hot_of_largest(log_probs)
        bits = hash_of_index(self.make_rng("dropout"), logits.shape)
        return self.draw(log_probs, log_probs + gumbel_noise(bits))

    def draw(self, log_probs: jax.Array, noisy: jax.Array) -> jax.Array:
        """Returns weights [B, N, T, S]: of half of the rows 1 at a position, of others softmax.

        noisy: the log-probabilities with noise, the largest of which is drawn.
        """
        drawn = _one_hot_of_largest(noisy)
        coins = hash_of_index(self.make_rng("dropout"), (len(log_probs), 1, 1, 1)) >> 31
        self.sow("samples", "log_probs", ((1 - coins) * drawn * log_probs).sum(-1))
        return jnp.where(coins == 0, drawn, jnp.exp(log_probs))


class HardGumbelAttention(HardAttention):
    """The same draw with the gradient of the softmax of the noisy logits: straight-through.

    Gumbel-softmax at temperature 1 (Jang et al., arXiv 1611.01144, 2.2).
    """

    def draw(self, log_probs: jax.Array, noisy: jax.Array) -> jax.Array:
        """Returns weights [B, N, T, S] that are 1 at a position of each query and 0 elsewhere."""
        soft = jax.nn.softmax(noisy)
        return _one_hot_of_largest(noisy) + soft - jax.lax.stop_gradient(soft)


def gumbel_noise(bits: jax.Array) -> jax.Array:
    """Returns the noise of random bits, uint32, with which the largest logit is that of a draw.

    The uniform number is (k + 1/2) / 2²³ for the 23 upper bits k: float32 holds each exactly, so
    that none is rounded to 1, as (2²⁴ - 1/2) / 2²⁴ would be, and the noise is always finite.
    """
    uniform = ((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-23
    return -jnp.log(-jnp.log(uniform))


def _one_hot_of_largest(x: jax.Array) -> jax.Array:
    return jax.nn.one_hot(x.argmax(-1), x.shape[-1])
