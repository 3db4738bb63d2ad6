"""Label-smoothed cross-entropy as (sum, weight), so that any split of a batch adds up exactly."""

import math
from functools import partial

import jax
import jax.numpy as jnp


def cross_entropy(logits, targets, weights, label_smoothing=0.0):
    """Sum over tokens of the cross-entropy with (1-ε)·one_hot + ε/V (paper, section 5.4).

    logits [B, T, V] float32, targets [B, T] ids, weights [B, T]. Returns (loss sum, sum of the
    plain negative log-likelihood, sum of weights), in nats. No one-hot targets are ever stored.
    """
    loss, nll = _per_token(logits, targets, label_smoothing)
    return (loss * weights).sum(), (nll * weights).sum(), weights.sum()


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _per_token(logits, targets, smoothing):
    return _forward(logits, targets, smoothing)[0]


def _forward(logits, targets, smoothing):
    log_normalizer = jax.nn.logsumexp(logits, axis=-1)
    gold = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    nll = log_normalizer - gold
    uniform = log_normalizer - logits.mean(-1)
    loss = (1 - smoothing) * nll + smoothing * uniform
    return (loss, nll), (logits, targets, log_normalizer)


def _backward(smoothing, residuals, gradients):
    """∂loss/∂logits = softmax(logits) - (1-ε)·one_hot - ε/V, by comparison instead of a scatter."""
    logits, targets, log_normalizer = residuals
    of_loss, of_nll = (g[..., None] for g in gradients)
    is_gold = targets[..., None] == jnp.arange(logits.shape[-1])
    probabilities = jnp.exp(logits - log_normalizer[..., None])
    at_gold = jnp.where(is_gold, (1 - smoothing) * of_loss + of_nll, 0.0)
    elsewhere = of_loss * (smoothing / logits.shape[-1])
    return (of_loss + of_nll) * probabilities - at_gold - elsewhere, None


_per_token.defvjp(_forward, _backward)


def make_loss_fn(model, label_smoothing):
    """loss_fn(params, batch, rng) -> (loss sum, sums); rng=None evaluates without dropout.

    sums: {"loss", "nll", "tokens"}, each a sum over the batch's real target tokens.
    """

    def loss_fn(params, batch, rng):
        rngs = None if rng is None else {"dropout": rng}
        logits = model.apply({"params": params}, batch, deterministic=rng is None, rngs=rngs)
        loss, nll, tokens = cross_entropy(logits, batch.targets, batch.weights, label_smoothing)
        return loss, {"loss": loss, "nll": nll, "tokens": tokens}

    return loss_fn


def perplexity(nll, num_tokens):
    """exp of the mean negative log-likelihood of a piece; inf if it is beyond a float."""
    mean = nll / max(num_tokens, 1)
    return math.exp(mean) if mean < 700 else math.inf
