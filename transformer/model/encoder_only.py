"""The models of a single Stack: classifiers of text and of images, masked and causal LMs."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.data.tokenizer import BOS, PAD, UNK
from transformer.model.attention import Dropout
from transformer.model.embedding import Embedding, Positions
from transformer.model.layers import Stack
from transformer.model.masks import causal_mask, segment_mask


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


class SentenceEncoder(nn.Module):
    """What a model of packed sentences needs, under names that a warm start finds again."""

    config: ModelConfig
    vocab_size: int
    remat: bool = False
    scan_layers: bool = False

    def setup(self):
        self.tokens = Tokens(self.config, self.vocab_size)
        self.encoder = Stack(self.config, False, self.remat, self.scan_layers)

    def encode(self, batch, deterministic):
        """The inputs of a `batching.Batch` -> [B, S, D]; sentences of a row see only themselves."""
        x = self.tokens(batch.inputs, batch.input_positions, deterministic=deterministic)
        mask = segment_mask(batch.input_segments, batch.input_segments)
        return self.encoder(x, mask=mask, deterministic=deterministic)


class MaskedLM(SentenceEncoder):
    """Guesses hidden pieces from both sides (Devlin et al. 2019)."""

    def __call__(self, batch, *, deterministic):
        """A `Batch` -> logits [B, S, V] float32 of the piece at each place."""
        return self.tokens.logits(self.encode(batch, deterministic))


class TextClassifier(SentenceEncoder):
    """Embedding and positions, encoder, mean over the sentence, softmax.

    The target of a sentence is one id, its class, so batches are packed as those of translation.
    """

    num_classes: int = 2

    def setup(self):
        super().setup()
        self.classes = nn.Dense(self.num_classes, dtype=jnp.float32)

    def __call__(self, batch, *, deterministic):
        """A `Batch` with a target for each sentence -> logits [B, T, classes] float32."""
        x = self.encode(batch, deterministic)
        mine = segment_mask(batch.target_segments, batch.input_segments)[:, 0].astype(x.dtype)
        share = mine / jnp.maximum(mine.sum(-1, keepdims=True), 1)  # [B, T, S]
        return self.classes(share @ x)


class ImageClassifier(nn.Module):
    """Patches for tokens (Dosovitskiy et al. 2021), with the mean over them for a class token."""

    config: ModelConfig
    num_classes: int
    remat: bool = False
    scan_layers: bool = False

    @nn.compact
    def __call__(self, batch, *, deterministic):
        """batch.patches [B, S, pixels] -> logits [B, T=1, classes] float32."""
        c = self.config
        x = nn.Dense(c.d_model, dtype=jnp.dtype(c.dtype), name="patches")(batch.patches)
        positions = Positions(c.d_model, c.positions, c.max_positions, name="positions")
        x = x + positions(jnp.arange(x.shape[1])).astype(x.dtype)
        x = Dropout(c.dropout_rate)(x, deterministic=deterministic)
        stack = Stack(c, False, self.remat, self.scan_layers, name="encoder")
        x = stack(x, mask=None, deterministic=deterministic)
        return nn.Dense(self.num_classes, dtype=jnp.float32, name="classes")(x.mean(1))[:, None]


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
