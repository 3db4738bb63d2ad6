"""Ids to vectors and back: token embedding (paper, section 3.4) and positions (section 3.5)."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.primitives import Array, Dropout, Norm, make_embedding_norm, table_init
from transformer.registry import POSITION_ENCODINGS


class Embedding(nn.Module):
    """A table [V, D]: looked up times √d_model on the way in, its transpose on the way out.

    has_logits: whether `logits` is used; only then there is a bias, if the configuration has one.
    """

    config: ModelConfig
    vocab_size: int
    has_logits: bool = False

    def setup(self) -> None:
        shape = self.vocab_size, self.config.d_model
        self.table = self.param("table", table_init(self.config), shape)
        if self.has_logits and self.config.output_bias:
            self.bias = self.param("bias", nn.initializers.zeros, (self.vocab_size,))

    def __call__(self, ids: Array) -> jax.Array:
        """Returns the vectors [..., D] of ids [...].

        They are looked up in float32, so that the gradients of a frequent token are added in it:
        a sum of ones in bfloat16 stays at 256.
        """
        # Gathered on every device, if it was split: rows are looked up by ids that lie elsewhere.
        table = nn.with_logical_constraint(self.table, ("vocab", "embed"))
        vectors = table[ids].astype(self.config.dtype)
        return vectors * self.config.d_model**0.5 if self.config.scale_embedding else vectors

    def logits(self, x: jax.Array, *, deterministic: bool = True) -> jax.Array:
        """Returns scores of every token, [..., V], of x [..., D].

        They are float32; in training (not `deterministic`) they are rounded to the computing type,
        as they are the largest array of a step and are read again for the gradient.
        """
        dtype = jnp.dtype(jnp.float32 if deterministic else self.config.dtype)
        table = self.table.astype(self.config.dtype)
        logits = jnp.einsum("...D,VD->...V", x, table, preferred_element_type=dtype)
        return logits + self.bias.astype(dtype) if self.config.output_bias else logits


class SinusoidalPositions(nn.Module):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) = cos(same): the paper's."""

    config: ModelConfig
    first_position: ClassVar[int] = 0

    def frequencies(self) -> jax.Array:
        """Returns the factor of the position in each pair of components, [D / 2]."""
        return 10_000.0 ** -(jnp.arange(0, self.config.d_model, 2) / self.config.d_model)

    def __call__(self, positions: Array) -> jax.Array:
        """Returns vectors [..., D] of positions [...], which count from 0 in each sentence."""
        angles = (positions + self.first_position)[..., None] * self.frequencies()
        pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        return pairs.reshape(*positions.shape, -1)


class Tensor2TensorPositions(SinusoidalPositions):
    """The sinusoids of tensor2tensor and Marian: wavelengths from 2π to exactly 10,000 · 2π.

    The paper's longest wavelength depends on d_model: 10,000^((d_model - 2) / d_model) · 2π.
    """

    def frequencies(self) -> jax.Array:
        number = self.config.d_model // 2
        return 10_000.0 ** -(jnp.arange(number) / max(1, number - 1))


class FairseqPositions(Tensor2TensorPositions):
    """The same where the first token stands at position 2, as in fairseq: M2M100 and NLLB."""

    first_position = 2


class LearnedPositions(nn.Module):
    """A learned vector per position (paper, Table 3, row E).

    There are `config.max_positions`; later positions share the last one.
    """

    config: ModelConfig

    @nn.compact
    def __call__(self, positions: Array) -> jax.Array:
        """Returns vectors [..., D] of positions [...], which count from 0 in each sentence."""
        length, width = self.config.max_positions, self.config.d_model
        table = self.param("table", table_init(self.config), (length, width))
        return table[jnp.minimum(positions, length - 1)]


def number_texts(ids: Array, positions: Array, eos: int) -> jax.Array:
    """Returns BERT's token types [B, S]: 0 in the first text of a sentence or pair, 1 behind it.

    ids, positions [B, S], packed; `eos` ends a text. For a pair and a single text, with eos = 2:

        ids        1 5 6 2 7 2 1 8 2 0
        positions  0 1 2 3 4 5 0 1 2 0
        ends       0 0 0 0 1 1 2 2 2 3    EOS to the left of each, in the row
        first      0 0 0 0 0 0 2 2 2 3    the same at its own position 0
        returns    0 0 0 0 1 1 0 0 0 0
    """
    is_end = (ids == eos).astype(jnp.int32)
    ends = jnp.cumsum(is_end, axis=1) - is_end
    first = jnp.take_along_axis(ends, jnp.arange(ids.shape[1]) - positions, axis=1)
    return jnp.minimum(ends - first, 1)


def add_positions(
    x: jax.Array, vectors: jax.Array, norm: Norm | None, dropout: Dropout, *, deterministic: bool
) -> jax.Array:
    """Returns the input of a Stack, Dropout(norm(x + position vectors)), both [..., D]."""
    x = x + vectors.astype(x.dtype)
    x = dropout(norm(x) if norm else x, deterministic=deterministic)
    return nn.with_logical_constraint(x, ("batch", "length", "embed"))


class TokenEmbedding(nn.Module):
    """Ids to the input of a Stack; `table` has the scores of its output."""

    config: ModelConfig
    vocab_size: int
    has_logits: bool = True
    eos: int = 2  # ends each text of a pair

    def setup(self) -> None:
        self.table = Embedding(self.config, self.vocab_size, self.has_logits)
        self.positions = POSITION_ENCODINGS[self.config.positions](self.config)
        if self.config.token_types:
            init = nn.initializers.normal(self.config.d_model**-0.5)
            self.types = self.param("types", init, (2, self.config.d_model))
        self.norm = make_embedding_norm(self.config)
        self.dropout = Dropout(self.config.dropout_rate)

    def __call__(self, ids: Array, positions: Array, *, deterministic: bool) -> jax.Array:
        """Returns [..., D] of ids [...] at positions [...]; [B, S] if there are token types."""
        x, vectors = self.table(ids), self.positions(positions)
        if self.config.token_types:
            vectors = vectors + self.types[number_texts(ids, positions, self.eos)]
        return add_positions(x, vectors, self.norm, self.dropout, deterministic=deterministic)
