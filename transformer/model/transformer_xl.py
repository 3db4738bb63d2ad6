"""Transformer-XL: segments that also see the states before them (Dai et al., arXiv 1901.02860).

A row of L tokens is K segments of T = `config.segment_length`. A query sees its own segment up to
itself and, as memory, the M positions before the segment, whose states get no gradient from it
(section 3.2). With T = 2 and M = 3 the queries of a row of 6 see the positions

    segment 0    0: 0             1: 0 1
    segment 1    2: 0 1 2         3: 0 1 2 3
    segment 2    4: 1 2 3 4       5: 1 2 3 4 5

A layer needs only the states of the layer below, so all segments of a row are computed at once, to
the same result as one after the other. The memory is empty where a row begins (in the paper it
lasts from batch to batch), so that a training step remains a function of (seed, step).
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.model.attention import KVCache, MultiHeadAttention, Place
from transformer.model.layers import Block
from transformer.model.relative_positions import steps_since


class TransformerXLBlock(Block):
    """A block of a causal language model with a memory; it has the weights of `Block`."""

    def make_attention(self, attention: str) -> nn.Module:
        """Returns self-attention by segments."""
        return SegmentAttention(self.config, attention)


class SegmentAttention(MultiHeadAttention):
    """Causal self-attention by segments; in evaluation M is `config.evaluation_memory`."""

    def __call__(
        self, x: jax.Array, source: jax.Array, *, deterministic: bool, **_: Any
    ) -> jax.Array:
        """Returns [B, L, D] of x [B, L, D], which is also the source; the mask is this module's."""
        length, memory = self.config.segment_length, self.config.memory(deterministic=deterministic)
        memory = min(memory, x.shape[1])
        keys_values = self.project_keys_values(source)
        recalled = self.project_keys_values(jax.lax.stop_gradient(source))
        key, value = (
            jnp.concatenate([before(old, length, memory), split(new, length)], axis=1)
            for old, new in zip(recalled, keys_values, strict=True)
        )
        mask = segment_memory_mask(-(-x.shape[1] // length), length, memory)
        y = self.attend_to(
            split(x, length),
            (key, value),
            mask=jnp.tile(mask, (len(x), 1, 1, 1)),
            positions=jnp.arange(memory + length),
            deterministic=deterministic,
        )
        return y.reshape(len(x), -1, y.shape[-1])[:, : x.shape[1]]

    def step(self, x: jax.Array, cache: KVCache, place: Place) -> tuple[jax.Array, KVCache]:
        """Attends from one new position of every beam, x [B, W, D], as `MultiHeadAttention.step`.

        The cache may have fewer columns than the search, in which later positions replace those
        that no query sees any more: with T = 2 and M = 3 it has 5, and position 7, in column 2, is
        written over position 2. It sees the last 4 before it, in the columns 3 4 0 1.
        """
        column, positions, ancestors = place
        num_columns = cache.value.shape[2] // x.shape[1]
        distances = steps_since(column, num_columns)
        ancestors = ancestors[:, :, (column - distances) % ancestors.shape[2]]
        limits = positions % self.config.segment_length + self.config.memory(deterministic=True)
        ancestors = jnp.where(distances <= limits[:, None, None], ancestors, -1)
        return super().step(x, cache, Place(column % num_columns, positions, ancestors))


def split(x: jax.Array, length: int) -> jax.Array:
    """Splits [B, L, …] into segments [B·K, T, …]; zeros fill the last one."""
    x = jnp.pad(x, [(0, 0), (0, -x.shape[1] % length), *[(0, 0)] * (x.ndim - 2)])
    return x.reshape(-1, length, *x.shape[2:])


def before(x: jax.Array, length: int, memory: int) -> jax.Array:
    """Returns what stands before each segment of [B, L, …]: [B·K, M, …], zeros before the row."""
    starts = jnp.arange(0, x.shape[1], length)[:, None]
    padded = jnp.pad(x, [(0, 0), (memory, 0), *[(0, 0)] * (x.ndim - 2)])
    return padded[:, starts + jnp.arange(memory)].reshape(-1, memory, *x.shape[2:])


def segment_memory_mask(num_segments: int, length: int, memory: int) -> jax.Array:
    """Returns the mask [K, N=1, T, M + T], which hides later positions and those before the row."""
    keys = jnp.arange(-memory, length)
    is_past = keys <= jnp.arange(length)[:, None]
    is_real = keys >= -length * jnp.arange(num_segments)[:, None]
    return is_past & is_real[:, None, None]
