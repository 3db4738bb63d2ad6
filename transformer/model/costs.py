"""What a model costs: its weights, the arithmetic of a training step, and what chips can do."""

import numpy as np

from transformer.config import ModelConfig

MAX_WEIGHTS_PER_CORE = 4_000_000  # in the layers: with their results they fit the cache of a core


def fits_a_core(config: ModelConfig) -> bool:
    """Whether each core of a CPU searches faster for itself than all of them do together.

    Counts the matrices of an encoder and a decoder.
    """
    attention = 2 * config.d_model * config.num_heads * sum(config.widths_of_head)
    feed_forward = 2 * config.d_model * config.d_ff
    weights = config.num_layers * (3 * attention + 2 * feed_forward)
    return weights <= MAX_WEIGHTS_PER_CORE


def stack_flops(config: ModelConfig, lengths, *, causal=False, outputs=0):
    """Arithmetic of training a model of one Stack once on sequences of these lengths.

    outputs: multiplications by weights before and after the stack, of all sequences together.
    """
    n = np.asarray(lengths, np.float64)
    heads = config.num_heads * sum(config.widths_of_head)
    weights = 2 * config.d_model * heads + 2 * config.d_model * config.d_ff
    looks = heads * (n * (n + 1) / 2 if causal else n**2)
    return 2 * 3 * float(config.num_layers * (n * weights + looks).sum() + outputs)


def training_flops(config: ModelConfig, target_vocab_size, source_lengths, target_lengths):
    """Arithmetic of training on sentences of these lengths once: forward, and twice that backward.

    Counts the matrix products that the model needs for real tokens: no padding, no recomputation,
    half of the decoder's causal square.
    """
    source, target = (np.asarray(n, np.float64) for n in (source_lengths, target_lengths))
    heads = config.num_heads * sum(config.widths_of_head)
    projection, feed_forward = config.d_model * heads, 2 * config.d_model * config.d_ff
    encoder = source * (2 * projection + feed_forward) + heads * source**2
    decoder = target * (3 * projection + feed_forward) + source * projection
    decoder += heads * (target * (target + 1) / 2 + source * target)
    softmax = target * config.d_model * target_vocab_size
    multiplications = config.num_layers * (encoder + decoder) + softmax
    return 2 * 3 * float(multiplications.sum())
