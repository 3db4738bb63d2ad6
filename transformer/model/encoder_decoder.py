"""The encoder-decoder Transformer: ids in, scores of the next piece out (paper, Figure 1)."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.dropout import Dropout
from transformer.model.embedding import Embedding, Positions
from transformer.model.layers import Stack
from transformer.model.masks import causal_mask, segment_mask


class Transformer(nn.Module):
    """config as in `ModelConfig`; vocabulary sizes are the tokenizer's.

    `embedding_sharing` says which of the three tables are one: "all" (the paper's), "target" (the
    decoder's and the softmax's) or "none". `remat` and `scan_layers` as in `layers.Stack`.
    """

    config: ModelConfig
    source_vocab_size: int
    target_vocab_size: int
    remat: bool = False
    scan_layers: bool = False

    def setup(self):
        c = self.config

        def embedding(vocab_size):
            return Embedding(vocab_size, c.d_model, jnp.dtype(c.dtype))

        if c.embedding_sharing == "all":
            self.shared_embedding = embedding(self.target_vocab_size)
        else:
            self.source_embedding = embedding(self.source_vocab_size)
            self.target_embedding = embedding(self.target_vocab_size)
        if c.embedding_sharing == "none":
            self.softmax = embedding(self.target_vocab_size)
        # Two tables, if they are learned: source and target need not agree on what a place means.
        self.source_positions, self.target_positions = (
            Positions(c.d_model, c.positions, c.max_positions) for _ in range(2)
        )
        self.dropout = Dropout(c.dropout_rate)
        self.encoder, self.decoder = (
            Stack(c, cross_attention, self.remat, self.scan_layers)
            for cross_attention in (False, True)
        )

    def __call__(self, batch, *, deterministic):
        """A training batch (see `batching.Batch`) -> logits [B, T, V] float32."""
        encoded = self.encode(
            batch.inputs, batch.input_positions, batch.input_segments, deterministic=deterministic
        )
        mask = segment_mask(batch.target_segments, batch.target_segments)
        x = self.decoder(
            self._embed_target(batch.decoder_inputs, batch.target_positions, deterministic),
            mask=mask & causal_mask(batch.targets.shape[1]),
            encoded=encoded,
            encoded_mask=segment_mask(batch.target_segments, batch.input_segments),
            deterministic=deterministic,
        )
        return self._logits(x)

    def encode(self, inputs, positions, segments, *, deterministic):
        """inputs, segments [B, S], positions [B, S] or [S] -> the source encoded, [B, S, D]."""
        table = self._table("source_embedding")
        x = self._add_positions(table(inputs), self.source_positions(positions), deterministic)
        return self.encoder(x, mask=segment_mask(segments, segments), deterministic=deterministic)

    def encode_for_search(self, inputs, lengths):
        """inputs [B, S], one sentence of lengths [B] a row -> what every `decode_step` needs of it.

        Returns (keys and values of each block, mask [B, 1, 1, S]); they lead with the sentence and
        are shared by its beams.
        """
        positions = jnp.arange(inputs.shape[1])
        segments = (positions < lengths[:, None]).astype(jnp.int32)
        encoded = self.encode(inputs, positions, segments, deterministic=True)
        return self.decoder.keys_values(encoded), (segments != 0)[:, None, None]

    def init_cache(self, batch_size, num_beams, length):
        """An empty cache for `length` positions of every beam."""
        return self.decoder.init_cache(batch_size, num_beams, length)

    def lengthen_cache(self, cache, num_beams, lengths):
        """The cache with as many positions as the next of `lengths`."""
        return self.decoder.lengthen_cache(cache, num_beams, lengths)

    def decode_step(self, tokens, cache, position, ancestors, encoded):
        """The piece after `tokens` [B, W], which stand at `position`: (logits [B, W, V], cache).

        ancestors [B, W, T'] as in `decoding`; encoded as `encode_for_search` returns it.
        """
        keys_values, mask = encoded
        x = self._embed_target(tokens, jnp.asarray(position), deterministic=True)
        sources = dict(encoded=keys_values, encoded_mask=mask)
        x, cache = self.decoder.step(x, cache, position, ancestors=ancestors, **sources)
        return self._logits(x), cache

    def _table(self, name):
        return getattr(self, "shared_embedding" if self.config.embedding_sharing == "all" else name)

    def _embed_target(self, ids, positions, deterministic):
        table = self._table("target_embedding")
        return self._add_positions(table(ids), self.target_positions(positions), deterministic)

    def _add_positions(self, x, vectors, deterministic):
        x = self.dropout(x + vectors.astype(x.dtype), deterministic=deterministic)
        return nn.with_logical_constraint(x, ("batch", "length", "embed"))

    def _logits(self, x):
        name = "softmax" if self.config.embedding_sharing == "none" else "target_embedding"
        return self._table(name).logits(x)
