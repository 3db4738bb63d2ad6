"""Feed-forward, residual connection, Block and Stack: the paper's Figure 1 without the ids.

A Stack takes vectors [B, T, D], whatever they were made of; encoder, decoder and language model are
the same Stack under another mask.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.attention import MultiHeadAttention
from transformer.model.dropout import Dropout
from transformer.model.kv_cache import empty_cache, lengthen, to_cache_layout
from transformer.model.masks import ancestor_mask


class FeedForward(nn.Module):
    """max(0, xW_1 + b_1)W_2 + b_2, equation (2)."""

    d_ff: int
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x):
        init = nn.initializers.xavier_uniform()
        inner = nn.relu(nn.Dense(self.d_ff, kernel_init=init, dtype=self.dtype, name="inner")(x))
        inner = nn.with_logical_constraint(inner, ("batch", "length", "mlp"))
        return nn.Dense(x.shape[-1], kernel_init=init, dtype=self.dtype, name="outer")(inner)


class Residual(nn.Module):
    """The one owner of residual, norm and dropout around a sub-layer.

    post, the paper's: LayerNorm(x + Dropout(sublayer(x)));
    pre: x + Dropout(sublayer(LayerNorm(x))).
    """

    norm: str
    dropout_rate: float
    dtype: jnp.dtype = jnp.float32

    @nn.compact
    def __call__(self, x, sublayer, *, deterministic):
        norm = nn.LayerNorm(dtype=self.dtype)
        dropout = Dropout(self.dropout_rate)
        if self.norm == "pre":
            return x + dropout(sublayer(norm(x)), deterministic=deterministic)
        return norm(x + dropout(sublayer(x), deterministic=deterministic))


class Block(nn.Module):
    """Self-attention, attention to the encoder if `cross_attention`, feed-forward."""

    config: ModelConfig
    cross_attention: bool = False

    def setup(self):
        c = self.config
        dtype = jnp.dtype(c.dtype)

        def attention(name):
            return MultiHeadAttention(
                c.d_model,
                c.num_heads,
                *c.widths_of_head,
                name,
                c.attention_dropout_rate,
                dtype,
                c.attention_block,
                c.attention_features,
            )

        self.self_attention = attention(c.attention)
        self.self_residual = Residual(c.norm, c.dropout_rate, dtype)
        if self.cross_attention:
            # A place of the target has no neighbours in the source: there a window is the whole.
            name = "scaled_dot_product" if c.attention == "local" else c.attention
            self.encoder_attention = attention(name)
            self.encoder_residual = Residual(c.norm, c.dropout_rate, dtype)
        self.feed_forward = FeedForward(c.d_ff, dtype)
        self.feed_forward_residual = Residual(c.norm, c.dropout_rate, dtype)

    def __call__(self, x, *, mask, encoded=None, encoded_mask=None, deterministic):
        """x [B, T, D], encoded [B, S, D] -> [B, T, D]."""
        attention = self.self_attention

        def attend(y):
            return attention(y, attention.keys_values(y), mask=mask, deterministic=deterministic)

        def attend_to_source(y):
            keys_values = self.encoder_attention.keys_values(encoded)
            return self.encoder_attention(
                y, keys_values, mask=encoded_mask, deterministic=deterministic
            )

        x = self._run(x, attend, attend_to_source, deterministic)
        return nn.with_logical_constraint(x, ("batch", "length", "embed"))

    def step(self, x, cache, position, *, mask, encoded=None, encoded_mask=None):
        """One new position of every beam: x [B, W, D] -> ([B, W, D], cache).

        encoded: the source as this block's keys and values, a `key_value_cache`.
        """
        written = {}

        def attend(y):
            attended, written["cache"] = self.self_attention.step(y, cache, position, mask=mask)
            return attended

        def attend_to_source(y):
            return self.encoder_attention.look(y, encoded, mask=encoded_mask)

        return self._run(x, attend, attend_to_source, deterministic=True), written["cache"]

    def _run(self, x, attend, attend_to_source, deterministic):
        x = self.self_residual(x, attend, deterministic=deterministic)
        if self.cross_attention:
            x = self.encoder_residual(x, attend_to_source, deterministic=deterministic)
        return self.feed_forward_residual(x, self.feed_forward, deterministic=deterministic)


class Stack(nn.Module):
    """N identical blocks; pre-norm ends with a LayerNorm of its own.

    remat: the backward pass computes the inside of each block again instead of keeping it.
    scan_layers: the blocks are one compiled loop. Neither changes a weight's name or shape.
    """

    config: ModelConfig
    cross_attention: bool = False
    remat: bool = False
    scan_layers: bool = False

    def setup(self):
        c = self.config
        self.layer = [Block(c, self.cross_attention) for _ in range(c.num_layers)]
        if c.norm == "pre":
            self.last_norm = nn.LayerNorm(dtype=jnp.dtype(c.dtype))

    def __call__(self, x, *, mask, encoded=None, encoded_mask=None, deterministic):
        """x [B, T, D], mask [B, N=1, T, T], encoded [B, S, D] -> [B, T, D]."""
        inputs = dict(mask=mask, encoded=encoded, encoded_mask=encoded_mask)
        writes = self.is_initializing() or self.is_mutable_collection("intermediates")
        if writes or not (self.remat or self.scan_layers):
            for block in self.layer:
                x = block(x, **inputs, deterministic=deterministic)
        else:
            x = self._call_purely(x, inputs, deterministic)
        return self._finish(x)

    def _call_purely(self, x, inputs, deterministic):
        """The blocks as one function of their weights, which can be scanned and recomputed."""
        pure = Block(self.config, self.cross_attention, parent=None)

        def call(x, layer):
            params, rng = layer
            rngs = {} if deterministic else {"dropout": rng}
            kwargs = inputs | {"deterministic": deterministic}
            return pure.apply({"params": params}, x, **kwargs, rngs=rngs), None

        if self.remat:
            call = jax.checkpoint(call, prevent_cse=not self.scan_layers)
        params = [block.variables["params"] for block in self.layer]
        rng = jax.random.PRNGKey(0) if deterministic else self.make_rng("dropout")
        rngs = jax.random.split(rng, len(params))
        if self.scan_layers:
            stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
            return jax.lax.scan(call, x, (stacked, rngs))[0]
        for layer in zip(params, rngs, strict=True):
            x, _ = call(x, layer)
        return x

    def keys_values(self, encoded):
        """The encoded source [B, S, D] as a `key_value_cache` of every block, projected once."""
        return [
            to_cache_layout(block.encoder_attention.keys_values(encoded)) for block in self.layer
        ]

    def init_cache(self, batch_size, num_beams, length):
        """An empty `key_value_cache` of every block, for self-attention to `length` places."""
        c = self.config
        sizes = batch_size, num_beams, length, c.num_heads
        return [empty_cache(*sizes, c.widths_of_head, jnp.dtype(c.dtype))] * c.num_layers

    def lengthen_cache(self, cache, num_beams, lengths):
        """The cache with as many places as the next of `lengths`."""
        length = cache[0]["key"].shape[-1] // num_beams
        missing = lengths[lengths.index(length) + 1] - length
        return [lengthen(block_cache, num_beams * missing) for block_cache in cache]

    def step(self, x, cache, position, *, ancestors, encoded=None, encoded_mask=None):
        """One new position of every beam: x [B, W, D] -> ([B, W, D], cache).

        ancestors [B, W, T'], as `decoding` has them, for at least the places of the cache; encoded:
        the source as `keys_values` returns it.
        """
        num_keys = cache[0]["key"].shape[-1]
        mask = ancestor_mask(ancestors, num_keys // x.shape[1])
        pure = Block(self.config, self.cross_attention, parent=None)

        @jax.jit  # traced once for all blocks
        def step(params, x, cache, encoded):
            inputs = dict(mask=mask, encoded=encoded, encoded_mask=encoded_mask)
            return pure.apply({"params": params}, x, cache, position, **inputs, method="step")

        written = []
        for i, block in enumerate(self.layer):
            params = block.variables["params"]
            x, block_cache = step(params, x, cache[i], encoded[i] if encoded else None)
            written.append(block_cache)
        return self._finish(x), written

    def _finish(self, x):
        return self.last_norm(x) if self.config.norm == "pre" else x
