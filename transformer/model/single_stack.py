"""The models of one Stack: language models, causal and masked; classifiers of text and images."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.data.rows.batch import Batch
from transformer.data.rows.images import ImageBatch
from transformer.data.rows.lm_batches import WindowBatch
from transformer.data.rows.masked_batches import MaskedBatch
from transformer.model.attention import KVCache, Place, causal_mask, segment_mask
from transformer.model.embedding import TokenEmbedding, add_positions
from transformer.model.layers import ACTIVATIONS, StackModel
from transformer.model.primitives import (
    Array,
    Dropout,
    as_batch,
    make_embedding_norm,
    make_layer_norm,
)
from transformer.registry import POSITION_ENCODINGS


class CausalLM(StackModel):
    """The decoder alone: predicts each token from those before it (Radford et al. 2018)."""

    vocab_size: int

    def setup(self) -> None:
        self.tokens = TokenEmbedding(self.config, self.vocab_size)
        self.decoder = self.make_stack()

    def __call__(self, inputs: WindowBatch | Array, *, deterministic: bool) -> jax.Array:
        """Returns `Embedding.logits` [B, T, V] of the token that follows each of the inputs.

        inputs: a `WindowBatch`, or ids [B, T], of which the first is EOS where a text begins.
        """
        ids = inputs.inputs if isinstance(inputs, WindowBatch) else inputs
        length = ids.shape[1]
        positions = jnp.broadcast_to(jnp.arange(length), ids.shape)
        x = self.tokens(ids, positions, deterministic=deterministic)
        x = self.decoder(x, mask=causal_mask(length), deterministic=deterministic)
        return self.tokens.table.logits(x, deterministic=deterministic)

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
        """Returns (logits [B, W, V], cache), as `Transformer.decode_step` without a source.

        Control tokens but EOS, which stand for no text, have the logit -inf.
        """
        x = self.tokens(tokens, positions[:, None], deterministic=True)
        x, cache = self.decoder.step(x, cache, Place(column, positions, ancestors))
        no_text = jnp.array(self.special.silent, jnp.int32)
        return self.tokens.table.logits(x).at[..., no_text].set(-jnp.inf), cache


class SentenceEncoder(StackModel):
    """The part that models of sentences share, so that one can start from another's weights."""

    vocab_size: int
    predicts_tokens: ClassVar[bool] = False

    def setup(self) -> None:
        eos = self.special.eos
        self.tokens = TokenEmbedding(self.config, self.vocab_size, self.predicts_tokens, eos)
        self.encoder = self.make_stack()
        if self.config.pooling == "pooler":
            self.pooler = Pooler(self.config)

    def encode(self, batch: Batch | MaskedBatch, *, deterministic: bool) -> jax.Array:
        """Returns the encoded inputs [B, S, D]; sentences of a row see only themselves."""
        x = self.tokens(batch.inputs, batch.input_positions, deterministic=deterministic)
        mask = segment_mask(batch.input_segments, batch.input_segments)
        return self.encoder(
            x, mask=mask, positions=batch.input_positions, deterministic=deterministic
        )


def pool(x: jax.Array, batch: Batch, pooling: str) -> jax.Array:
    """Returns the encoded inputs x [B, S, D] as one vector for each sentence of a row, [B, T, D].

    pooling: "mean" over the sentence's positions; else its first position.
    """
    mask = segment_mask(batch.target_segments, batch.input_segments)[:, 0]
    if pooling != "mean":
        mask = mask & (batch.input_positions == 0)[:, None]
    sums = jnp.einsum("BTS,BSD->BTD", mask.astype(x.dtype), x, preferred_element_type=jnp.float32)
    return (sums / jnp.maximum(mask.sum(-1, keepdims=True), 1)).astype(x.dtype)


class PredictionHead(nn.Module):
    """Dense layer, activation and layer normalisation before the softmax, as in BERT."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns [..., D] of x [..., D]."""
        x = nn.Dense(self.config.d_model, dtype=jnp.dtype(self.config.dtype), name="dense")(x)
        return make_layer_norm(self.config, name="norm")(ACTIVATIONS[self.config.activation](x))


class Pooler(nn.Module):
    """tanh(xW + b) of the first position, as in BERT."""

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns [..., D] of x [..., D]."""
        dtype = jnp.dtype(self.config.dtype)
        return jnp.tanh(nn.Dense(self.config.d_model, dtype=dtype, name="dense")(x))


class MaskedLM(SentenceEncoder):
    """Predicts hidden tokens from both sides (Devlin et al. 2019).

    With `config.pooling` = pooler it holds a pooler for the classifiers that start from it.
    """

    predicts_tokens = True

    def setup(self) -> None:
        super().setup()
        if self.config.prediction_head:
            self.prediction = PredictionHead(self.config)
        if self.config.next_sentence:
            self.next_sentence = nn.Dense(2, dtype=jnp.float32)

    def __call__(self, inputs: MaskedBatch | Batch | Array, *, deterministic: bool) -> jax.Array:
        """Returns `Embedding.logits` [B, K, V] of the tokens to guess, or [B, S, V] of all.

        inputs: a `MaskedBatch`; or a packed `Batch`, or ids [B, S] of one sentence per row with
        `special.pad` behind it.
        """
        is_masked = isinstance(inputs, MaskedBatch)
        batch = inputs if is_masked else as_batch(inputs, pad=self.special.pad)
        x = self.encode(batch, deterministic=deterministic)
        if self.is_initializing() and self.config.pooling == "pooler":
            pooled = self.pooler(x)
            _ = self.next_sentence(pooled) if self.config.next_sentence else None
        return self._predict(x, batch, deterministic=deterministic)

    def predict_both(
        self, batch: MaskedBatch, *, deterministic: bool
    ) -> tuple[jax.Array, jax.Array]:
        """Returns (logits [B, K, V] as above, logits [B, S, 2] of IS_NEXT and IS_OTHER).

        The second mean something where a pair begins. Needs `config.next_sentence`.
        """
        x = self.encode(batch, deterministic=deterministic)
        pair_logits = self.next_sentence(self.pooler(x))
        return self._predict(x, batch, deterministic=deterministic), pair_logits

    def _predict(
        self, x: jax.Array, batch: MaskedBatch | Batch, *, deterministic: bool
    ) -> jax.Array:
        if isinstance(batch, MaskedBatch):
            x = jnp.take_along_axis(x, batch.columns[..., None], axis=1)
        x = self.prediction(x) if self.config.prediction_head else x
        return self.tokens.table.logits(x, deterministic=deterministic)


class TokenClassifier(SentenceEncoder):
    """Embedding and positions, encoder, and the classes of every position."""

    num_classes: int

    def setup(self) -> None:
        super().setup()
        self.classes = nn.Dense(self.num_classes, dtype=jnp.float32)

    def __call__(self, inputs: Batch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, S, num_classes] float32; inputs: as of `MaskedLM`."""
        batch = as_batch(inputs, pad=self.special.pad)
        return self.classes(self.encode(batch, deterministic=deterministic))


class TextClassifier(TokenClassifier):
    """Embedding and positions, encoder, `config.pooling` of the sentence, softmax.

    The target of a sentence is one id, its class, so batches are packed as those of translation.
    """

    def __call__(self, inputs: Batch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, T, num_classes] float32, T being the number of sentences per row.

        inputs: a packed `Batch` with one target per sentence; or ids [B, S] of one sentence per row
        with `special.pad` behind it: T = 1.
        """
        batch = as_batch(inputs, pad=self.special.pad)
        x = pool(self.encode(batch, deterministic=deterministic), batch, self.config.pooling)
        return self.classes(self.pooler(x) if self.config.pooling == "pooler" else x)


class ImageClassifier(StackModel):
    """Patches for tokens (Dosovitskiy et al. 2021), with `config.pooling` over them.

    The mean needs no class token; the other two see one, a learned vector before the patches.
    """

    num_classes: int

    @nn.compact
    def __call__(self, patches: ImageBatch | Array, *, deterministic: bool) -> jax.Array:
        """Returns logits [B, T=1, num_classes] float32 of numbers [B, S, pixels]."""
        c = self.config
        if isinstance(patches, ImageBatch):
            patches = patches.patches
        x = nn.Dense(c.d_model, dtype=jnp.dtype(c.dtype), name="patches")(patches)
        if c.pooling != "mean":
            class_token = self.param("class_token", nn.initializers.zeros, (c.d_model,))
            first = jnp.broadcast_to(class_token.astype(x.dtype), (len(x), 1, c.d_model))
            x = jnp.concatenate([first, x], axis=1)
        positions = POSITION_ENCODINGS[c.positions](c, name="positions")
        vectors = positions(jnp.arange(x.shape[1]))
        norm, dropout = make_embedding_norm(c), Dropout(c.dropout_rate)
        x = add_positions(x, vectors, norm, dropout, deterministic=deterministic)
        x = self.make_stack(name="encoder")(x, mask=None, deterministic=deterministic)
        x = x.mean(1) if c.pooling == "mean" else x[:, 0]
        x = Pooler(c, name="pooler")(x) if c.pooling == "pooler" else x
        return nn.Dense(self.num_classes, dtype=jnp.float32, name="classes")(x)[:, None]
