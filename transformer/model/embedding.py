"""Ids to vectors and back: token embedding (paper, section 3.4) and positions (section 3.5)."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.dropout import Dropout


class Embedding(nn.Module):
    """A table [V, D]: looked up times √d_model on the way in, its transpose on the way out."""

    vocab_size: int
    d_model: int
    dtype: jnp.dtype = jnp.float32

    def setup(self):
        init = nn.initializers.normal(self.d_model**-0.5)
        self.table = self.param("table", init, (self.vocab_size, self.d_model))

    def __call__(self, ids):
        """ids [...] -> vectors [..., D]."""
        # Whole on every device, if it was shared: rows are looked up by ids that lie elsewhere.
        table = nn.with_logical_constraint(self.table.astype(self.dtype), ("vocab", "embed"))
        return table[ids] * self.d_model**0.5

    def logits(self, x):
        """x [..., D] -> float32 scores of every piece [..., V]."""
        table = self.table.astype(self.dtype)
        return jnp.einsum("...D,VD->...V", x, table, preferred_element_type=jnp.float32)


def sinusoids(positions, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos(same): [...] -> [..., D]."""
    frequencies = 10_000.0 ** -(jnp.arange(0, d_model, 2) / d_model)
    angles = positions[..., None] * frequencies
    pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return pairs.reshape(*positions.shape, d_model)


class Positions(nn.Module):
    """Position vectors: the paper's sinusoids, or learned ones (Table 3, row E)."""

    d_model: int
    kind: str = "sinusoidal"
    max_length: int = 0

    @nn.compact
    def __call__(self, positions):
        """positions [...] counted from 0 in each sentence -> [..., D] float32.

        Learned vectors exist up to `max_length`; later positions share the last one.
        """
        if self.kind == "sinusoidal":
            return sinusoids(positions, self.d_model)
        init = nn.initializers.normal(self.d_model**-0.5)
        table = self.param("table", init, (self.max_length, self.d_model))
        return table[jnp.minimum(positions, self.max_length - 1)]


class Tokens(nn.Module):
    """Ids [...] as vectors [..., D]: table, positions and dropout; vectors as scores of ids."""

    config: ModelConfig
    vocab_size: int

    def setup(self):
        c = self.config
        self.table = Embedding(self.vocab_size, c.d_model, jnp.dtype(c.dtype))
        self.positions = Positions(c.d_model, c.positions, c.max_positions)
        self.dropout = Dropout(c.dropout_rate)

    def __call__(self, ids, positions, *, deterministic):
        x = self.table(ids)
        x = self.dropout(x + self.positions(positions).astype(x.dtype), deterministic=deterministic)
        return nn.with_logical_constraint(x, ("batch", "length", "embed"))

    def logits(self, x):
        """x [..., D] -> float32 scores [..., V], by the same table (paper, section 3.4)."""
        return self.table.logits(x)
