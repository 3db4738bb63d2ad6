"""Hard attention: a query takes the value of one position, drawn in training (Xu et al. 2015).

A draw has no gradient. `HardAttention` has that of the score function (REINFORCE, Williams 1992),
unbiased, by way of the loss in `tasks.translation`; `HardGumbelAttention` a biased one of less
variance.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.model.attention_functions import WeightsDropout, attention_logits, mask_logits
from transformer.model.primitives import Array, hash_of_index


class HardAttention(nn.Module):
    """The value at one position s, which is drawn from softmax(QKᵀ/√d_k) for each query and head.

    It is arXiv 1502.03044, section 4.1. `dropout` is given only in training, and drops nothing
    here; without it s is the likeliest position, so that nothing is drawn when translating. In
    training a row of the batch has soft attention instead with probability 1/2, as there an image.
    The collection "samples" receives log p(s) [B, N, T] as "log_probs", 0 where nothing is drawn.
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
        query, key, value = (x.swapaxes(1, 2) for x in (query, key, value))
        logits = attention_logits(query * query.shape[-1] ** -0.5, key)
        log_probs = jax.nn.log_softmax(mask_logits(logits, mask))
        weights = _one_hot_of_largest(log_probs) if dropout is None else self.draw(log_probs)
        return (weights.astype(value.dtype) @ value).swapaxes(1, 2)

    def draw(self, log_probs: jax.Array) -> jax.Array:
        """Returns weights [B, N, T, S]: of half of the rows 1 at a position, of others softmax."""
        drawn = _one_hot_of_largest(log_probs + self.gumbel_noise(log_probs.shape))
        coins = hash_of_index(self.make_rng("dropout"), (len(log_probs), 1, 1, 1)) >> 31
        self.sow("samples", "log_probs", ((1 - coins) * drawn * log_probs).sum(-1))
        return jnp.where(coins == 0, drawn, jnp.exp(log_probs))

    def gumbel_noise(self, shape: tuple[int, ...]) -> jax.Array:
        """Returns noise with which the largest log-probability is that of a draw.

        Like dropout it does not depend on the number of devices.
        """
        return gumbel_noise_of(hash_of_index(self.make_rng("dropout"), shape))


class HardGumbelAttention(HardAttention):
    """The same draw with the gradient of the softmax of the noisy logits: straight-through.

    Gumbel-softmax at temperature 1 (Jang et al., arXiv 1611.01144, 2.2).
    """

    def draw(self, log_probs: jax.Array) -> jax.Array:
        """Returns weights [B, N, T, S] that are 1 at a position of each query and 0 elsewhere."""
        noisy = log_probs + self.gumbel_noise(log_probs.shape)
        soft = jax.nn.softmax(noisy)
        return _one_hot_of_largest(noisy) + soft - jax.lax.stop_gradient(soft)


def gumbel_noise_of(bits: jax.Array) -> jax.Array:
    """Returns the noise of random bits, uint32: finite for all of them.

    The uniform number is (k + 1/2) / 2²³ for the 23 upper bits k: float32 holds each exactly, so
    that none is rounded to 1, as (2²⁴ - 1/2) / 2²⁴ would be.
    """
    uniform = ((bits >> 9).astype(jnp.float32) + 0.5) * 2.0**-23
    return -jnp.log(-jnp.log(uniform))


def _one_hot_of_largest(x: jax.Array) -> jax.Array:
    return jax.nn.one_hot(x.argmax(-1), x.shape[-1])
