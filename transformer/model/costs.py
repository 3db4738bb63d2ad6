"""What a model costs: the arithmetic of training it, in FLOPs, and whether it fits a CPU core."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from transformer.config import ModelConfig

MAX_WEIGHTS_PER_CORE = 4_000_000  # in the layers: they and their results fit the cache of a core
FLOPS_PER_PRODUCT = 2 * 3  # a multiplication and an addition; forward, and twice that backward


class StepCost(NamedTuple):
    """What one training step computes, in the mean of an epoch."""

    flops: float
    num_targets: float


def fits_a_core(config: ModelConfig) -> bool:
    """Returns whether a CPU searches faster with each core for itself than with all together."""
    return num_layer_weights(config) <= MAX_WEIGHTS_PER_CORE


def num_layer_weights(config: ModelConfig) -> int:
    """Returns the number of weights in the layers of a `Transformer`, encoder and decoder."""
    attention, feed_forward = _weights(config)
    decoder = config.depth(is_decoder=True) * (2 * attention + feed_forward)
    return config.num_layers * (attention + feed_forward) + decoder


def _weights(config: ModelConfig) -> tuple[int, int]:
    """Returns the numbers of weights in the matrices of (one attention, one feed-forward)."""
    num_matrices = 3 if config.feed_forward == "gated" else 2
    return 2 * config.d_model * _heads_width(config), num_matrices * config.d_model * config.d_ff


def _heads_width(config: ModelConfig) -> int:
    """Returns N·(d_k + d_v)."""
    return config.num_heads * sum(config.widths_of_head)


def stack_flops(
    config: ModelConfig,
    lengths: np.ndarray | Sequence[int],
    *,
    causal: bool = False,
    outputs: float = 0,
) -> float:
    """Returns the FLOPs of training a model of one Stack once on sequences of these lengths.

    outputs: multiplications by weights before and after the stack, of all sequences together.
    """
    n = np.asarray(lengths, np.float64)
    seen = n * (n + 1) / 2 if causal else n**2
    if config.has_memory:  # query t of a row sees its segment and the memory before it
        t = np.arange(n.max(initial=0))
        in_reach = np.minimum(t, t % config.segment_length + config.memory_length)
        seen = np.cumsum([0, *in_reach + 1])[n.astype(int)]
    attention_products = _heads_width(config) * seen
    products = config.num_layers * (n * sum(_weights(config)) + attention_products)
    return FLOPS_PER_PRODUCT * float(products.sum() + outputs)


def training_flops(
    config: ModelConfig,
    target_vocab_size: int,
    source_lengths: np.ndarray | Sequence[int],
    target_lengths: np.ndarray | Sequence[int],
) -> float:
    """Returns the FLOPs of training a `Transformer` once on sentence pairs of these lengths.

    Counts the matrix products that the model needs for real tokens: no padding, no recomputation,
    half of the decoder's causal square.
    """
    source, target = (np.asarray(n, np.float64) for n in (source_lengths, target_lengths))
    # Attention to the source: half of its weights meet the target (queries, output), half the
    # source (keys, values).
    to_source = _weights(config)[0] * (source + target) / 2
    to_source += _heads_width(config) * source * target
    depth, softmax = config.depth(is_decoder=True), target * config.d_model * target_vocab_size
    decoder = replace(config, num_layers=depth)
    outputs = float((depth * to_source + softmax).sum())
    return stack_flops(config, source) + stack_flops(decoder, target, causal=True, outputs=outputs)
