"""The models of an encoder alone: masked language models, classifiers of text and of images."""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.data.batch import Batch
from transformer.data.images import ImageBatch
from transformer.model.arrays import Array, as_batch
from transformer.model.dropout import Dropout
from transformer.model.embedding import TokenEmbedding, add_positions, make_position_encoding
from transformer.model.masks import segment_mask
from transformer.model.stack import StackModel


class SentenceEncoder(StackModel):
    """The part that models of sentences share, so that one can start from another's weights."""

    vocab_size: int

    def setup(self) -> None:
        self.tokens = TokenEmbedding(self.config, self.vocab_size)
        self.encoder = self.make_stack()

    def encode(self, batch: Batch, *, deterministic: bool) -> jax.Array:
        """Returns the encoded inputs [B, S, D]; sentences of a row see only themselves."""
        x = self.tokens(batch.inputs, batch.input_positions, deterministic=deterministic)
        mask = segment_mask(batch.input_segments, batch.input_segments)
        return self.encoder(x, mask=mask, deterministic=deterministic)


class MaskedLM(SentenceEncoder):
    """Predicts hidden tokens from both sides (Devlin et al. 2019)."""

    def __call__(self, inputs: Batch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, S, V] float32 of the token at each position.

        inputs: a packed `Batch`, or ids [B, S] of one sentence per row with PAD behind it.
        """
        encoded = self.encode(as_batch(inputs), deterministic=deterministic)
        return self.tokens.logits(encoded)


class TextClassifier(SentenceEncoder):
    """Embedding and positions, encoder, mean over the sentence, softmax.

    The target of a sentence is one id, its class, so batches are packed as those of translation.
    """

    num_classes: int

    def setup(self) -> None:
        super().setup()
        self.classes = nn.Dense(self.num_classes, dtype=jnp.float32)

    def __call__(self, inputs: Batch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, T, num_classes] float32, T being the number of sentences per row.

        inputs: a packed `Batch` with one target per sentence; or ids [B, S] of one sentence per row
        with PAD behind it: T = 1.
        """
        batch = as_batch(inputs)
        x = self.encode(batch, deterministic=deterministic)
        mask = segment_mask(batch.target_segments, batch.input_segments)[:, 0].astype(x.dtype)
        weights = mask / jnp.maximum(mask.sum(-1, keepdims=True), 1)  # [B, T, S]
        return self.classes(weights @ x)


class ImageClassifier(StackModel):
    """Patches for tokens (Dosovitskiy et al. 2021), with the mean over them for a class token."""

    num_classes: int

    @nn.compact
    def __call__(self, patches: ImageBatch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, T=1, num_classes] float32.

        patches: an `ImageBatch`, or numbers [B, S, pixels].
        """
        c = self.config
        if isinstance(patches, ImageBatch):
            patches = patches.patches
        x = nn.Dense(c.d_model, dtype=jnp.dtype(c.dtype), name="patches")(patches)
        vectors = make_position_encoding(c, name="positions")(jnp.arange(x.shape[1]))
        x = add_positions(x, vectors, Dropout(c.dropout_rate), deterministic=deterministic)
        x = self.make_stack(name="encoder")(x, mask=None, deterministic=deterministic)
        return nn.Dense(self.num_classes, dtype=jnp.float32, name="classes")(x.mean(1))[:, None]
