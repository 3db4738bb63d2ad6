"""Positions that act in self-attention: they turn queries and keys, or add a bias to the logits.

Nothing is added to the embedding. What they do depends only on the offset of a key from a query,
the key's position minus the query's. Both count within the sentence, so that neighbours in a packed
row change nothing, and neither does the column of a cache that a search writes. Each layer has
weights of its own, which makes a layer complete without the others (scanned, recomputed, cached).
A scheme is an entry of `registry.POSITION_ENCODINGS` that extends `NoPositions`.
"""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.primitives import Array
from transformer.registry import POSITION_ENCODINGS


class NoPositions(nn.Module):
    """No positions at all, and the base of the schemes that act in attention.

    A causal model can tell positions by the number of keys that it sees (Haviv et al., arXiv
    2203.16634); other models see a set.
    """

    config: ModelConfig

    def __call__(self, positions: Array) -> jax.Array:
        """Returns what is added to the embedding at any positions: zero, of shape [1]."""
        del positions
        return jnp.zeros(1)

    def rotate(self, x: jax.Array, positions: Array) -> jax.Array:
        """Returns queries or keys [B, T, N, H] for their positions, broadcastable to [B, T]."""
        del positions
        return x

    def bias(self, query: jax.Array, offsets: Array) -> jax.Array | None:
        """Returns what is added to the logits, float32, broadcastable to [B, N, T, S], or None.

        query [B, T, N, H] without the scale; offsets: broadcastable to [B, T, S].
        """
        del query, offsets


def acts_in_attention(config: ModelConfig) -> bool:
    """Returns whether `config.positions` act in attention instead of on the embedding."""
    return issubclass(POSITION_ENCODINGS[config.positions], NoPositions)


def steps_since(column: Array | int, num_columns: int) -> jax.Array:
    """Returns how many steps ago each column of a cache was written, at a step into `column`.

    The columns are a ring (see `search.decoding`), so these are the distances in any sentence,
    wherever it began. With 4 columns, at a step into column 1: 1 0 3 2.
    """
    return jnp.mod(column - jnp.arange(num_columns), num_columns)


class RotaryPositions(NoPositions):
    """Turns components 2i and 2i + 1 of a query or key by position / 10000^(2i/d_k) (RoPE).

    Their product depends on the offset alone (Su et al., arXiv 2104.09864, equation 34).
    """

    def rotate(self, x: jax.Array, positions: Array) -> jax.Array:
        width = x.shape[-1]
        frequencies = 10_000.0 ** -(jnp.arange(0, width, 2) / width)
        angles = positions[..., None, None] * frequencies  # [B, T, N=1, H / 2]
        sines, cosines = jnp.sin(angles), jnp.cos(angles)
        even, odd = x[..., ::2], x[..., 1::2]
        turned = [even * cosines - odd * sines, even * sines + odd * cosines]
        return jnp.stack(turned, axis=-1).reshape(x.shape).astype(x.dtype)


class ShawPositions(NoPositions):
    """Learned vectors, one per offset up to 16, that are added to the keys (Shaw et al. 2018).

    The logits get q·a / √d_k (arXiv 1803.02155, equation 4). All heads share the vectors. Those
    that the paper also adds to values (its Table 3 finds no gain from them) are left out.
    """

    max_distance = 16  # offsets beyond it are one, as in the paper

    @nn.compact
    def bias(self, query: jax.Array, offsets: Array) -> jax.Array:
        limit, width = self.max_distance, query.shape[-1]
        init = nn.initializers.xavier_uniform()
        vectors = self.param("vectors", init, (2 * limit + 1, width)).astype(query.dtype)
        index = jnp.clip(offsets, -limit, limit) + limit
        products = jnp.einsum(
            "BTNH,KH->BNTK", query * width**-0.5, vectors, preferred_element_type=jnp.float32
        )
        return jnp.take_along_axis(products, index[:, None], axis=3)


class T5Positions(NoPositions):
    """A learned bias per head and range of offsets (Raffel et al., arXiv 1910.10683, 2.1).

    T5 shares one table among its layers; here each has its own. T5's encoder has 16 ranges on
    either side and its decoder 32 before the query; here both have 32 on either side, so that a
    decoder computes as T5's and never reads the second half of its table.
    """

    num_ranges, max_distance = 32, 128

    @nn.compact
    def bias(self, query: jax.Array, offsets: Array) -> jax.Array:
        shape = 2 * self.num_ranges, query.shape[2]
        table = self.param("biases", nn.initializers.zeros, shape)
        ranges = range_of_offset(offsets, self.num_ranges, self.max_distance)
        return jnp.moveaxis(table[ranges], -1, 1)


def range_of_offset(offsets: Array, num_ranges: int, max_distance: int) -> jax.Array:
    """Returns the range of each offset: half of them hold one distance, others ever more.

    The last one holds all from about `max_distance`; ranges of keys after the query come behind
    those before it. With 4 ranges and max_distance = 8:

        offset   0  -1  -2  -3  -4  …  -9     1  2  3  4  …  9
        range    0   1   2   2   3      3     5  6  6  7     7
    """
    distances, exact = jnp.abs(offsets), num_ranges // 2
    share = jnp.log(jnp.maximum(distances, exact) / exact) / np.log(max_distance / exact)
    wide = exact + (share * (num_ranges - exact)).astype(jnp.int32)
    ranges = jnp.where(distances < exact, distances, jnp.minimum(wide, num_ranges - 1))
    return ranges + num_ranges * (jnp.asarray(offsets) > 0)


class AlibiPositions(NoPositions):
    """Subtracts the distance times a slope that differs between heads (Press et al. 2022).

    Models that see both ways, which the paper (arXiv 2108.12409) has none of, take the distance on
    either side.
    """

    def bias(self, query: jax.Array, offsets: Array) -> jax.Array:
        slopes = jnp.asarray(alibi_slopes(query.shape[2]))[:, None, None]
        return -slopes * jnp.abs(offsets)[:, None]


def alibi_slopes(num_heads: int) -> np.ndarray:
    """Returns the slopes [N]: 2^(-8/N), 2^(-16/N), …, 2^-8.

    As in the authors' code, a number of heads that is no power of two takes those of the power
    below, and then every other one of the power above. With 3 heads: 1/16, 1/256 and 1/4.
    """
    below = 2 ** int(np.log2(num_heads))
    slopes = [2.0 ** (-8 * (i + 1) / below) for i in range(below)]
    between = [2.0 ** (-4 * (2 * i + 1) / below) for i in range(num_heads - below)]
    return np.array(slopes + between, np.float32)
