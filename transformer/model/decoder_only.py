"""The decoder-only model: a causal language model."""

import jax
import jax.numpy as jnp

from transformer.data.rows.lm_batches import WindowBatch
from transformer.model.attention import KVCache, causal_mask
from transformer.model.embedding import TokenEmbedding
from transformer.model.layers import StackModel
from transformer.model.primitives import Array


class CausalLM(StackModel):
    """The decoder alone: predicts each token from those before it (Radford et al. 2018)."""

    vocab_size: int

    def setup(self) -> None:
        self.tokens = TokenEmbedding(self.config, self.vocab_size)
        self.decoder = self.make_stack()

    def __call__(self, inputs: WindowBatch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, T, V] of the token that follows each of the inputs.

        They are float32, but in training (not `deterministic`) of the computing type.
        inputs: a `WindowBatch`, or ids [B, T], of which the first is EOS where a text begins.
        """
        ids = inputs.inputs if isinstance(inputs, WindowBatch) else inputs
        length = ids.shape[1]
        positions = jnp.broadcast_to(jnp.arange(length), ids.shape)
        x = self.tokens(ids, positions, deterministic=deterministic)
        x = self.decoder(x, mask=causal_mask(length), deterministic=deterministic)
        return self.tokens.logits(x, deterministic=deterministic)

    def init_cache(self, batch_size: int, num_beams: int, length: int) -> list[KVCache]:
        """Returns an empty cache of `length` columns for every beam, or of those that are seen."""
        c = self.config
        if c.has_memory:
            length = min(length, c.segment_length + c.memory(deterministic=True))
        return self.decoder.init_cache(batch_size, num_beams, length)

    def decode_step(
        self,
        tokens: jax.Array,
        cache: list[KVCache],
        positions: jax.Array,
        column: jax.Array | int,
        ancestors: jax.Array,
        encoded: tuple[()],
    ) -> tuple[jax.Array, list[KVCache]]:
        """Returns (logits [B, W, V] of the token after `tokens`, the cache that includes these).

        tokens [B, W], which stand at `positions` [B] of their sentences and are written into
        `column` of the cache; ancestors [B, W, L]: see `attention.ancestor_mask`.
        Control tokens but EOS, which stand for no text, have the logit -inf.
        """
        x = self.tokens(tokens, positions[:, None], deterministic=True)
        x, cache = self.decoder.step(x, cache, column, ancestors=ancestors, positions=positions)
        no_text = jnp.array(self.special.silent, jnp.int32)
        return self.tokens.logits(x).at[..., no_text].set(-jnp.inf), cache
