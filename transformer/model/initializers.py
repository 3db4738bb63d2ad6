"""Initial weights of matrices and tables, as `config.initializer` names them."""

from flax import linen as nn

from transformer.config import ModelConfig

GPT2_DEVIATION = 0.02


def kernel_init(config: ModelConfig, *, ends_sublayer: bool = False) -> nn.initializers.Initializer:
    """Returns the distribution of a matrix of a layer.

    ends_sublayer: whether its results are added to the residual stream. GPT-2 divides it by √(2N),
    so that the sum of 2N sub-layers begins as large as one (Radford et al. 2019, section 2.3).
    """
    if config.initializer == "xavier":
        return nn.initializers.xavier_uniform()
    num_added = 2 * config.num_layers if ends_sublayer else 1
    return nn.initializers.normal(GPT2_DEVIATION / num_added**0.5)


def table_init(config: ModelConfig) -> nn.initializers.Initializer:
    """Returns the distribution of a table of embeddings or positions."""
    is_xavier = config.initializer == "xavier"
    return nn.initializers.normal(config.d_model**-0.5 if is_xavier else GPT2_DEVIATION)
