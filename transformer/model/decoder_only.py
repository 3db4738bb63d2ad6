"""The decoder-only model: a causal language model."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.embedding import Tokens
from transformer.model.layers import Stack
from transformer.model.masks import causal_mask
from transformer.special_tokens import BOS, PAD, UNK


class CausalLM(nn.Module):
    """The decoder alone: the piece after each, from those before it (Radford et al. 2018)."""

    config: ModelConfig
    vocab_size: int
    remat: bool = False
    scan_layers: bool = False

    def setup(self):
        self.tokens = Tokens(self.config, self.vocab_size)
        self.decoder = Stack(self.config, False, self.remat, self.scan_layers)

    def __call__(self, batch, *, deterministic):
        """A `windows.Window` -> logits [B, T, V] float32 of its targets."""
        length = batch.inputs.shape[1]
        positions = jnp.broadcast_to(jnp.arange(length), batch.inputs.shape)
        x = self.tokens(batch.inputs, positions, deterministic=deterministic)
        x = self.decoder(x, mask=causal_mask(length), deterministic=deterministic)
        return self.tokens.logits(x)

    # What a search asks of a model, as of `models.Transformer`; there is no source.

    def encode_for_search(self, inputs, lengths):
        """Nothing."""
        return ()

    def init_cache(self, batch_size, num_beams, length):
        """An empty cache for `length` positions of every beam."""
        return self.decoder.init_cache(batch_size, num_beams, length)

    def lengthen_cache(self, cache, num_beams, lengths):
        """The cache with as many positions as the next of `lengths`."""
        return self.decoder.lengthen_cache(cache, num_beams, lengths)

    def decode_step(self, tokens, cache, position, ancestors, encoded):
        """The piece after `tokens` [B, W], which stand at `position`: (logits [B, W, V], cache)."""
        x = self.tokens(tokens, jnp.asarray(position), deterministic=True)
        x, cache = self.decoder.step(x, cache, position, ancestors=ancestors)
        no_text = jnp.array([PAD, BOS, UNK])
        return self.tokens.logits(x).at[..., no_text].set(-jnp.inf), cache
