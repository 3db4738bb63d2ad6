"""The models of a single Stack: classifiers of text and of images, masked and causal LMs."""

import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.dropout import Dropout
from transformer.model.embedding import Positions, Tokens
from transformer.model.layers import Stack
from transformer.model.masks import segment_mask


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
