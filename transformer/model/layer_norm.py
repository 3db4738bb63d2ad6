"""Layer normalisation with the settings of a configuration."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig


def make_layer_norm(config: ModelConfig, name: str | None = None) -> nn.LayerNorm:
    """Returns a layer normalisation of the last axis."""
    return nn.LayerNorm(epsilon=config.norm_epsilon, dtype=jnp.dtype(config.dtype), name=name)


def make_embedding_norm(config: ModelConfig) -> nn.LayerNorm | None:
    """Returns the normalisation of a Stack's input, None if the configuration has none."""
    return make_layer_norm(config) if config.embedding_norm else None
