"""Lets random weights end translations after different numbers of tokens."""

import os
from typing import Any

import numpy as np

from transformer.special_tokens import EOS, NUM_SPECIAL

SLOPE = 0.15  # by which the logit of EOS grows with each position
# Where EOS is as probable as the best token, after random tokens; after a translation's own it is
# about 15 positions earlier.
TYPICAL_LENGTH = 35
LONGEST = 130  # positions over which the sine that is read grows


def end_by_position(model: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """Changes weights so that the logit of EOS grows with the position, in a column of its own.

    Only a sine of the position is in that column, which nothing but layer normalisation changes, so
    that the lengths vary with what differs between sentences. The model must have an output bias.
    """
    width = model["d_model"]
    column = 2 * round(np.log(LONGEST) / np.log(10_000) * width / 2)
    for name, array in weights.items():
        if name.endswith(("output/kernel", "outer/kernel", "table")):
            array[:, column] = 0
        elif name.endswith(("output/bias", "outer/bias", "LayerNorm_0/bias")):
            array[column] = 0
        elif name.endswith("LayerNorm_0/scale"):
            array[column] = 2**0.5  # a sum with what a sub-layer adds has about twice the variance
    table, bias = weights["shared_embedding/table"], weights["shared_embedding/bias"]
    table[EOS], bias[EOS] = np.eye(width)[column], 0
    logits = some_logits(model, weights)
    read, others = logits[..., EOS].mean(0), np.delete(logits, EOS, -1).max(-1).mean(0)
    slope, start = np.polyfit(np.arange(len(read)), read, 1)
    table[EOS] *= SLOPE / slope
    bias[EOS] = others.mean() - SLOPE * (start / slope + TYPICAL_LENGTH)


def some_logits(model: dict[str, Any], weights: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the logits [B, T, V] of random sentences."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from flax.traverse_util import unflatten_dict

    from transformer.config import ModelConfig
    from transformer.model.encoder_decoder import Transformer

    params = {name: array for name, array in weights.items() if name != "positions"}
    vocab_size = len(weights["shared_embedding/table"])
    ids = np.random.default_rng(3).integers(NUM_SPECIAL, vocab_size, (2, 8, 40), np.int32)
    network = Transformer(ModelConfig(**model), vocab_size, vocab_size)
    variables = {"params": unflatten_dict(params, sep="/")}
    return np.asarray(network.apply(variables, *ids, deterministic=True))
