"""Hard attention: a query takes the value of one position, drawn in training (Xu et al. 2015).

A draw has no gradient. `HardAttention` has that of the score function (REINFORCE, Williams 1992),
unbiased, by way of `make_translation_loss_fn`; `HardGumbelAttention` a biased one of less variance.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.model.arrays import Array
from transformer.model.attention_functions import WeightsDropout, attention_logits, mask_logits
from transformer.model.dropout import hash_of_index
from transformer.model.encoder_decoder import Transformer
from transformer.model.loss import LossFn, Params, Sums, make_loss_fn, per_token
from transformer.model.masks import causal_mask, segment_mask


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


def make_translation_loss_fn(model: nn.Module, label_smoothing: float) -> LossFn:
    """Returns `loss.make_loss_fn`, with what trains the draws of a `Transformer` if it has any.

    With model.attention=hard training adds (R - b) log p(s) for each sample s, whose gradient is
    what a draw does not pass on. R is the loss of the target that the sample is for and, but in the
    last layer, of the later ones of its sentence, which it reaches by self-attention. b, the
    baseline, is the same of the model without dropout that takes the likeliest positions
    (self-critical: Rennie et al., arXiv 1612.00563), so nothing is kept from step to step. Xu et
    al. have a moving average of the loss of the whole sentence. The sums are of the loss alone.
    """
    loss_without_draws = make_loss_fn(model, label_smoothing)
    if not isinstance(model, Transformer) or model.config.attention != "hard":
        return loss_without_draws

    def loss_fn(params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        if rng is None:
            return loss_without_draws(params, batch, None)
        call = partial(model.apply, {"params": params}, batch)
        logits, sown = call(deterministic=False, rngs={"dropout": rng}, mutable=["samples"])
        losses, nll = per_token(logits, batch.targets, label_smoothing)
        baseline, _ = per_token(call(deterministic=True), batch.targets, label_smoothing)
        weights = batch.weights
        advantage = jax.lax.stop_gradient(losses - baseline) * weights
        score = score_of_samples(sown["samples"]["decoder"], advantage, batch.target_segments)
        loss, nll, tokens = (x.sum() for x in (losses * weights, nll * weights, weights))
        return loss + score, {"loss": loss, "nll": nll, "tokens": tokens}

    return loss_fn


def score_of_samples(samples: Any, advantage: jax.Array, segments: Array) -> jax.Array:
    """Returns the sum of (R - b) log p(s) over all samples; advantage [B, T]: of each target."""
    sees = segment_mask(segments, segments)[:, 0] & causal_mask(segments.shape[1])[0]
    of_later = jnp.einsum("BTS,BT->BS", sees, advantage)
    score = jnp.zeros(())
    for i in range(len(samples)):
        (log_probs,) = samples[f"layer_{i}"]["encoder_attention"]["alignment"]["log_probs"]
        gain = advantage if i == len(samples) - 1 else of_later
        score += (gain[:, None] * log_probs).sum()
    return score
