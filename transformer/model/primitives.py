"""What every model is made with: its input, initial weights, normalisation, dropout."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.data.rows.batch import Batch

Array = jax.Array | np.ndarray
Norm = nn.LayerNorm | nn.RMSNorm
GPT2_DEVIATION = 0.02


def as_batch(inputs: Batch | Array, targets: Array | None = None, *, pad: int = 0) -> Batch:
    """Returns a packed `Batch` as it is, and ids [B, S] and [B, T] as of `Batch.from_arrays`.

    Raises ValueError if a `Batch`, which has targets, comes with others.
    """
    if not isinstance(inputs, Batch):
        return Batch.from_arrays(inputs, targets, pad=pad, xp=jnp)
    if targets is not None:
        raise ValueError("A packed Batch has its own targets: give either it or two arrays.")
    return inputs


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
    is_gpt2 = config.initializer == "gpt2"
    return nn.initializers.normal(GPT2_DEVIATION if is_gpt2 else config.d_model**-0.5)


def make_layer_norm(config: ModelConfig, name: str | None = None) -> Norm:
    """Returns the normalisation of the last axis that the configuration names."""
    norm = nn.RMSNorm if config.norm_type == "rms_norm" else nn.LayerNorm
    return norm(epsilon=config.norm_epsilon, dtype=jnp.dtype(config.dtype), name=name)


def make_embedding_norm(config: ModelConfig) -> Norm | None:
    """Returns the normalisation of a Stack's input, None if the configuration has none."""
    return make_layer_norm(config) if config.embedding_norm else None


class Dropout(nn.Module):
    """Sets elements to zero with probability `rate` and divides the others by 1 - rate.

    A hash of the key and of the element's index decides what is kept, so it does not depend on the
    number of devices. JAX's generator takes eight times as long: a sixth of a training step on a
    CPU.
    """

    rate: float

    @nn.compact
    def __call__(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
        if deterministic or self.rate == 0.0:
            return x
        smallest_kept = jnp.uint32(round(self.rate * 2**32))
        is_kept = hash_of_index(self.make_rng("dropout"), x.shape) >= smallest_kept
        return jnp.where(is_kept, x / (1.0 - self.rate), jnp.zeros_like(x))


def hash_of_index(rng: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Returns 32 bits for every element of an array: two rounds of a keyed integer hash."""
    # The flat index of each element, modulo 2^32; the first axis is that of rows, of which a
    # replica has only some.
    index = jax.lax.broadcasted_iota(jnp.uint32, shape, 0) + _first_row(shape[0])
    for axis, size in enumerate(shape[1:], 1):
        index = index * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    first, second = jax.random.bits(rng, (2,), jnp.uint32)
    return _mix(_mix(index ^ first) + second)


def _first_row(num_rows: int) -> jax.Array:
    """Returns the index of this replica's first row; the second of those with 4 rows begins at 4.

    Replicas are the indices of a mesh's axis data, where a step is computed by each for itself.
    """
    if "data" not in jax.sharding.get_abstract_mesh().manual_axes:
        return jnp.uint32(0)
    return jax.lax.axis_index("data").astype(jnp.uint32) * jnp.uint32(num_rows)


def _mix(x: jax.Array) -> jax.Array:
    """Mixes every bit into every other: shifts and factors of C. Wellons' hash-prospector."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15)) * jnp.uint32(0xD35A2D97)
    return x ^ (x >> 15)
