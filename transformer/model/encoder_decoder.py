"""The encoder-decoder Transformer: ids in, scores of the next token out (paper, Figure 1).

An `Ensemble` is several of them as one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.data.rows.batch import Batch
from transformer.model.attention import KVCache, Place, causal_mask, segment_mask
from transformer.model.embedding import Embedding, add_positions
from transformer.model.layers import StackModel
from transformer.model.primitives import Array, Dropout, as_batch, make_embedding_norm
from transformer.registry import POSITION_ENCODINGS


class EncodedSource(NamedTuple):
    """What the steps of a search need of the source; every array leads with the sentence."""

    keys_values: list[KVCache]  # one per block
    mask: jax.Array  # [B, N=1, T=1, S]


class Transformer(StackModel):
    """The model of the paper; the vocabulary sizes are the tokenizers'.

    `config.embedding_sharing` says which of the three tables are one: "all" (the paper's), "target"
    (the decoder's and the softmax's) or "none".

    >>> model = Transformer(ModelConfig(), 37_000, 37_000)
    >>> variables = model.init(jax.random.key(0), inputs, targets, deterministic=True)
    >>> logits = model.apply(variables, inputs, targets, deterministic=True)
    """

    source_vocab_size: int
    target_vocab_size: int

    def setup(self) -> None:
        c, sharing = self.config, self.config.embedding_sharing
        name = dict(all="shared_embedding", target="target_embedding", none="softmax")[sharing]
        self.softmax = table = Embedding(c, self.target_vocab_size, has_logits=True, name=name)
        self.target_embedding = self.source_embedding = table
        if sharing == "none":
            self.target_embedding = Embedding(c, self.target_vocab_size)
        if sharing != "all":
            self.source_embedding = Embedding(c, self.source_vocab_size)
        # What is learnt of positions, the source and the target learn apart.
        positions = POSITION_ENCODINGS[c.positions]
        self.source_positions, self.target_positions = positions(c), positions(c)
        self.source_norm, self.target_norm = make_embedding_norm(c), make_embedding_norm(c)
        self.dropout = Dropout(c.dropout_rate)
        self.encoder = self.make_stack()
        self.decoder = self.make_stack(cross_attention=True)

    def __call__(
        self, inputs: Batch | Array, targets: Array | None = None, *, deterministic: bool
    ) -> jax.Array:
        """Returns `Embedding.logits` [B, T, V]: the scores of each target, given those before it.

        inputs: a packed `Batch`; or ids [B, S] with targets [B, T], one sentence pair per row, each
        with EOS at its end and `special.pad` behind it. Raises ValueError for ids without targets.
        """
        if targets is None and not isinstance(inputs, Batch):
            raise ValueError("A Transformer takes a Batch, or inputs [B, S] and targets [B, T].")
        batch = as_batch(inputs, targets, pad=self.special.pad)
        decoder_inputs = shift_right(batch.targets, batch.target_positions, self.special.bos)
        encoded = self.encode(
            batch.inputs, batch.input_positions, batch.input_segments, deterministic=deterministic
        )
        positions, segments = batch.target_positions, batch.target_segments
        x = self._embed_targets(decoder_inputs, positions, deterministic=deterministic)
        x = self.decoder(
            x,
            mask=segment_mask(segments, segments) & causal_mask(segments.shape[1]),
            encoded=encoded,
            encoded_mask=segment_mask(segments, batch.input_segments),
            positions=positions,
            deterministic=deterministic,
        )
        return self.softmax.logits(x, deterministic=deterministic)

    def encode(
        self, inputs: Array, positions: Array, segments: Array, *, deterministic: bool
    ) -> jax.Array:
        """Returns the encoded source [B, S, D]; positions and segments [B, S] as in a `Batch`."""
        x, vectors = self.source_embedding(inputs), self.source_positions(positions)
        x = add_positions(x, vectors, self.source_norm, self.dropout, deterministic=deterministic)
        mask = segment_mask(segments, segments)
        return self.encoder(x, mask=mask, positions=positions, deterministic=deterministic)

    def encode_for_search(self, inputs: Array, lengths: Array) -> EncodedSource:
        """Encodes ids [B, S] of lengths [B], a sentence per row, once for all steps of a search."""
        positions = jnp.arange(inputs.shape[1])
        segments = (positions < lengths[:, None]).astype(jnp.int32)
        encoded = self.encode(inputs, positions, segments, deterministic=True)
        mask = (segments != 0)[:, None, None]
        return EncodedSource(self.decoder.project_keys_values(encoded), mask)

    def init_cache(self, batch_size: int, num_beams: int, length: int) -> list[KVCache]:
        """Returns an empty cache of `length` columns for every beam."""
        return self.decoder.init_cache(batch_size, num_beams, length)

    def decode_step(
        self,
        tokens: jax.Array,
        cache: list[KVCache],
        positions: jax.Array,
        column: jax.Array | int,
        ancestors: jax.Array,
        encoded: EncodedSource,
    ) -> tuple[jax.Array, list[KVCache]]:
        """Returns (logits [B, W, V] of the token after `tokens`, the cache that includes these).

        tokens [B, W], which stand at `positions` [B] of their sentences and are written into
        `column` of the cache; ancestors [B, W, L]: see `attention.ancestor_mask`.
        """
        x = self._embed_targets(tokens, positions[:, None], deterministic=True)
        source = dict(encoded=encoded.keys_values, encoded_mask=encoded.mask)
        x, cache = self.decoder.step(x, cache, Place(column, positions, ancestors), **source)
        return self.softmax.logits(x), cache

    def _embed_targets(self, ids: Array, positions: Array, *, deterministic: bool) -> jax.Array:
        """Returns the input of the decoder, [..., D]."""
        x, vectors = self.target_embedding(ids), self.target_positions(positions)
        return add_positions(
            x, vectors, self.target_norm, self.dropout, deterministic=deterministic
        )


def shift_right(targets: Array, positions: Array, bos: int) -> jax.Array:
    """Returns the decoder's inputs [B, T]: each sentence shifted by one, `bos` in front.

    positions [B, T] are 0 where a sentence begins. Two sentences, with bos = 1 and EOS = 2:

        targets    7 2 9 9 2
        positions  0 1 0 1 2
        returns    1 7 1 9 9
    """
    return jnp.where(positions == 0, bos, jnp.roll(targets, 1, axis=1))


class Ensemble(nn.Module):
    """Several models with the methods of one, for a search and for scoring.

    At each position the probability of a token is the mean of those of the models, as in fairseq
    (Marian takes the mean of the logarithms). The models may differ in all but the vocabulary. The
    parameters are {"models_0": …, "models_1": …}; a cache and an encoded source are tuples with an
    entry for each model.
    """

    models: tuple[Any, ...]  # of `Transformer`

    def __call__(self, *inputs: Any, deterministic: bool) -> jax.Array:
        """Returns log-probabilities [B, T, V] in the place of logits."""
        return log_mean([model(*inputs, deterministic=deterministic) for model in self.models])

    def encode(self, *inputs: Any, deterministic: bool) -> jax.Array:
        """Raises ValueError: every model encodes a source in vectors of its own."""
        raise ValueError("An ensemble has no vectors of a source: open one of its runs alone.")

    def encode_for_search(self, *inputs: Any) -> tuple[Any, ...]:
        """Returns what each model needs of the sources, inputs [B, S] of `lengths` [B]."""
        return tuple(model.encode_for_search(*inputs) for model in self.models)

    def init_cache(self, *sizes: int) -> tuple[Any, ...]:
        """Returns an empty cache of each model."""
        return tuple(model.init_cache(*sizes) for model in self.models)

    def decode_step(
        self, tokens: jax.Array, cache: tuple[Any, ...], *rest: Any
    ) -> tuple[jax.Array, tuple[Any, ...]]:
        """Returns (log-probabilities [B, W, V], caches), as `Transformer.decode_step`."""
        *place, encoded = rest
        members = zip(self.models, cache, encoded, strict=True)
        steps = [model.decode_step(tokens, own, *place, source) for model, own, source in members]
        logits, caches = zip(*steps, strict=True)
        return log_mean(logits), caches


def log_mean(logits: Any) -> jax.Array:
    """Returns the logarithm of the mean of softmax(logits) over the models."""
    log_probs = jnp.stack([jax.nn.log_softmax(scores.astype(jnp.float32)) for scores in logits])
    return jax.nn.logsumexp(log_probs, axis=0) - jnp.log(len(log_probs))
