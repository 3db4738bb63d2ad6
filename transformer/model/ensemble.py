"""Several translation models of one vocabulary as one, which averages their probabilities."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn


class Ensemble(nn.Module):
    """Several models with the methods of one, for a search and for scoring.

    At each position the probability of a token is the mean of those of the models, as in fairseq
    (Marian takes the mean of the logarithms). The models may differ in all but the vocabulary. The
    parameters are {"models_0": …, "models_1": …}; a cache and an encoded source are tuples with an
    entry for each model.
    """

    models: tuple[Any, ...]  # of `Transformer`

    def __call__(self, *inputs: Any, deterministic: bool) -> jax.Array:
        """Returns log-probabilities [B, T, V] in the place of logits."""
        return log_mean([model(*inputs, deterministic=deterministic) for model in self.models])

    def encode(self, *inputs: Any, deterministic: bool) -> jax.Array:
        """Raises ValueError: every model encodes a source in vectors of its own."""
        raise ValueError("An ensemble has no vectors of a source: open one of its runs alone.")

    def encode_for_search(self, *inputs: Any) -> tuple[Any, ...]:
        """Returns what each model needs of the sources, inputs [B, S] of `lengths` [B]."""
        return tuple(model.encode_for_search(*inputs) for model in self.models)

    def init_cache(self, *sizes: int) -> tuple[Any, ...]:
        """Returns an empty cache of each model."""
        return tuple(model.init_cache(*sizes) for model in self.models)

    def decode_step(
        self, tokens: jax.Array, cache: tuple[Any, ...], *rest: Any
    ) -> tuple[jax.Array, tuple[Any, ...]]:
        """Returns (log-probabilities [B, W, V], caches), as `Transformer.decode_step`."""
        *place, encoded = rest
        members = zip(self.models, cache, encoded, strict=True)
        steps = [model.decode_step(tokens, own, *place, source) for model, own, source in members]
        logits, caches = zip(*steps, strict=True)
        return log_mean(logits), caches


def log_mean(logits: Any) -> jax.Array:
    """Returns the logarithm of the mean of softmax(logits) over the models."""
    log_probs = jnp.stack([jax.nn.log_softmax(scores.astype(jnp.float32)) for scores in logits])
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(log_probs))
