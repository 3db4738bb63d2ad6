"""Layer normalisation, or RMSNorm in its place, with the settings of a configuration."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig

Norm = nn.LayerNorm | nn.RMSNorm


def make_layer_norm(config: ModelConfig, name: str | None = None) -> Norm:
    """Returns the normalisation of the last axis that the configuration names."""
    norm = nn.RMSNorm if config.norm_type == "rms_norm" else nn.LayerNorm
    return norm(epsilon=config.norm_epsilon, dtype=jnp.dtype(config.dtype), name=name)


def make_embedding_norm(config: ModelConfig) -> Norm | None:
    """Returns the normalisation of a Stack's input, None if the configuration has none."""
    return make_layer_norm(config) if config.embedding_norm else None
