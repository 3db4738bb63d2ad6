"""Label-smoothed cross-entropy as (sum, weight), so that any split of a batch adds up exactly."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

Params = Any  # the pytree of a model's parameters
Sums = dict[str, jax.Array]
LossFn = Callable[[Params, Any, jax.Array | None], tuple[jax.Array, Sums]]


def cross_entropy(
    logits: jax.Array,
    targets: jax.Array | np.ndarray,
    weights: jax.Array | np.ndarray,
    label_smoothing: float = 0.0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Sums the cross-entropy with (1-ε)·one_hot + ε/V over tokens (paper, section 5.4).

    logits [B, T, V], targets [B, T] ids, weights [B, T]. Returns (sum of the loss, sum of the plain
    negative log-likelihood, sum of the weights), in nats, computed in float32. No one-hot targets
    are stored.
    """
    loss, nll = per_token(logits, targets, label_smoothing)
    return (loss * weights).sum(), (nll * weights).sum(), weights.sum()


Pair = tuple[jax.Array, jax.Array]


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def per_token(logits: jax.Array, targets: jax.Array, smoothing: float) -> Pair:
    """Returns (loss, negative log-likelihood), each [B, T]."""
    return _forward(logits, targets, smoothing)[0]


def _forward(logits: jax.Array, targets: jax.Array, smoothing: float) -> tuple[Pair, Any]:
    """Returns the result, and what the gradient needs."""
    exact = logits.astype(jnp.float32)
    log_normalizer = jax.nn.logsumexp(exact, axis=-1)
    gold = jax.lax.platform_dependent(logits, targets, tpu=_select, default=_gather)
    nll = log_normalizer - gold
    uniform = log_normalizer - exact.mean(-1)
    loss = (1 - smoothing) * nll + smoothing * uniform
    return (loss, nll), (logits, targets, log_normalizer)


def _gather(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns the logit of each target, [B, T] float32."""
    gold = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    return gold.astype(jnp.float32)


def _select(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Computes `_gather` as a sum, which shares a pass over the logits with other sums on a TPU."""
    return jnp.where(_is_gold(logits, targets), logits.astype(jnp.float32), 0.0).sum(-1)


def _is_gold(logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Returns where logits [B, T, V] are those of the targets [B, T]."""
    return targets[..., None] == jnp.arange(logits.shape[-1])


def _backward(smoothing: float, residuals: Any, gradients: Pair) -> tuple[jax.Array, None]:
    """Returns ∂loss/∂logits = softmax(logits) - (1-ε)·one_hot - ε/V, without a scatter."""
    logits, targets, log_normalizer = residuals
    loss_gradient, nll_gradient = (g[..., None] for g in gradients)
    probabilities = jnp.exp(logits.astype(jnp.float32) - log_normalizer[..., None])
    at_gold = jnp.where(
        _is_gold(logits, targets), (1 - smoothing) * loss_gradient + nll_gradient, 0.0
    )
    elsewhere = loss_gradient * (smoothing / logits.shape[-1])
    gradient = (loss_gradient + nll_gradient) * probabilities - at_gold - elsewhere
    return gradient.astype(logits.dtype), None


per_token.defvjp(_forward, _backward)


def make_loss_fn(model: nn.Module, label_smoothing: float) -> LossFn:
    """Returns loss_fn(params, batch, rng) -> (sum of the loss, sums); rng=None: without dropout.

    The batch has `targets` and `weights` [B, T], and is what the model is called with. sums:
    {"loss", "nll", "tokens"}, each a sum over the targets, weighted.
    """

    def loss_fn(params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        rngs = None if rng is None else {"dropout": rng}
        logits: Any = model.apply({"params": params}, batch, deterministic=rng is None, rngs=rngs)
        loss, nll, tokens = cross_entropy(logits, batch.targets, batch.weights, label_smoothing)
        return loss, {"loss": loss, "nll": nll, "tokens": tokens}

    return loss_fn


def perplexity(nll: float, num_tokens: float) -> float:
    """Returns exp(nll / num_tokens), nll in nats; inf where that exceeds a float."""
    mean = nll / max(num_tokens, 1)
    return math.exp(mean) if mean < 700 else math.inf
