"""Block, a layer of the paper's Figure 1, and Stack: N of them, of which every model is made.

A Stack takes vectors [B, T, D], whatever they were made of; encoder, decoder and language model are
the same Stack under another mask.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.attention import KVCache, MultiHeadAttention, Place, to_cache_layout
from transformer.model.primitives import Array, Dropout, kernel_init, make_layer_norm
from transformer.registry import BLOCKS, SELF_ATTENTION_ONLY, SOURCE_ATTENTION_ONLY
from transformer.special_tokens import OWN_IDS, SpecialIds

ACTIVATIONS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "relu": nn.relu,
    "swish": nn.swish,
    "gelu": partial(nn.gelu, approximate=False),
    "gelu_tanh": nn.gelu,
    "gelu_sigmoid": lambda x: x * nn.sigmoid(1.702 * x),
}


class FeedForward(nn.Module):
    """max(0, xW_1 + b_1)W_2 + b_2, equation (2), with `config.activation` for max(0, ·).

    Gated: (activation(xV + c) ⊙ (xW_1 + b_1))W_2 + b_2 (Shazeer 2020, who leaves out the biases).
    """

    config: ModelConfig

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """Returns [..., D] of x [..., D]."""
        init, dtype = kernel_init(self.config), jnp.dtype(self.config.dtype)
        activate, dense = ACTIVATIONS[self.config.activation], partial(nn.Dense, dtype=dtype)
        inner = dense(self.config.d_ff, kernel_init=init, name="inner")(x)
        if self.config.feed_forward == "gated":
            x = activate(dense(self.config.d_ff, kernel_init=init, name="gate")(x)) * inner
        else:
            x = activate(inner)
        x = nn.with_logical_constraint(x, ("batch", "length", "mlp"))
        init = kernel_init(self.config, ends_sublayer=True)
        return dense(self.config.d_model, kernel_init=init, name="outer")(x)


class Residual(nn.Module):
    """The one owner of residual, norm and dropout around a sub-layer.

    post, the paper's: LayerNorm(x + Dropout(sublayer(x)));
    pre: x + Dropout(sublayer(LayerNorm(x))).
    """

    config: ModelConfig

    @nn.compact
    def __call__(
        self, x: jax.Array, sublayer: Callable[[jax.Array], jax.Array], *, deterministic: bool
    ) -> jax.Array:
        """Returns [..., D] of x [..., D]."""
        norm = make_layer_norm(self.config, name="LayerNorm_0")
        dropout = partial(Dropout(self.config.dropout_rate), deterministic=deterministic)
        if self.config.norm == "pre":
            return x + dropout(sublayer(norm(x)))
        return norm(x + dropout(sublayer(x)))


class Block(nn.Module):
    """Self-attention, attention to the source if `cross_attention`, feed-forward.

    A subclass that overrides `make_attention` or `make_feed_forward` is another block; it is
    registered under a name for `config.block` (`transformer.register_block`).
    """

    config: ModelConfig
    cross_attention: bool = False

    def make_attention(self, attention: str) -> nn.Module:
        """Returns a sub-layer with the methods of `MultiHeadAttention`."""
        return MultiHeadAttention(self.config, attention)

    def make_feed_forward(self) -> nn.Module:
        """Returns a function of x [..., D] to [..., D]."""
        return FeedForward(self.config)

    def setup(self) -> None:
        name, paper = self.config.attention, "scaled_dot_product"
        self.self_attention = self.make_attention(paper if name in SOURCE_ATTENTION_ONLY else name)
        self.self_residual = Residual(self.config)
        if self.cross_attention:
            name = paper if name in SELF_ATTENTION_ONLY else name
            self.encoder_attention = self.make_attention(name)
            self.encoder_residual = Residual(self.config)
        self.feed_forward = self.make_feed_forward()
        self.feed_forward_residual = Residual(self.config)

    def __call__(
        self,
        x: jax.Array,
        *,
        mask: Array | None,
        encoded: jax.Array | None = None,
        encoded_mask: Array | None = None,
        positions: Array | None = None,
        deterministic: bool,
    ) -> jax.Array:
        """Returns [B, T, D] of x [B, T, D], as `Stack.__call__`."""
        options = dict(deterministic=deterministic)
        attend = partial(self.self_attention, mask=mask, positions=positions, **options)
        x = self.self_residual(x, lambda y: attend(y, y), **options)
        if self.cross_attention:
            attend = partial(self.encoder_attention, source=encoded, mask=encoded_mask, **options)
            x = self.encoder_residual(x, attend, **options)
        x = self.feed_forward_residual(x, self.feed_forward, **options)
        return nn.with_logical_constraint(x, ("batch", "length", "embed"))

    def step(
        self,
        x: jax.Array,
        cache: KVCache,
        place: Place,
        *,
        encoded: KVCache | None = None,
        encoded_mask: Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """Computes a step as `Stack.step`; encoded: the source as this block's keys and values."""

        def attend(y: jax.Array) -> jax.Array:
            nonlocal cache
            y, cache = self.self_attention.step(y, cache, place)
            return y

        x = self.self_residual(x, attend, deterministic=True)
        if self.cross_attention:
            attend_to_source = self.encoder_attention.attend_to_cache
            attend = partial(attend_to_source, cache=encoded, mask=encoded_mask)
            x = self.encoder_residual(x, attend, deterministic=True)
        return self.feed_forward_residual(x, self.feed_forward, deterministic=True), cache


class Stack(nn.Module):
    """N identical blocks (`config.depth`); pre-norm ends with a LayerNorm of its own.

    remat: the backward pass computes the inside of each block again instead of keeping it.
    scan_layers: the blocks are one compiled loop. Neither changes a weight's name or shape.
    """

    config: ModelConfig
    cross_attention: bool = False
    remat: bool = False
    scan_layers: bool = False

    def setup(self) -> None:
        c = self.config
        block_class = BLOCKS[c.block]
        depth = c.depth(is_decoder=self.cross_attention)
        self.layer = [block_class(c, self.cross_attention) for _ in range(depth)]
        self.last_norm = make_layer_norm(c) if c.norm == "pre" else None

    def __call__(
        self,
        x: jax.Array,
        *,
        mask: Array | None,
        encoded: jax.Array | None = None,
        encoded_mask: Array | None = None,
        positions: Array | None = None,
        deterministic: bool,
    ) -> jax.Array:
        """Returns [B, T, D] of x [B, T, D].

        mask: broadcastable to [B, N, T, T]; encoded [B, S, D]: the source, with a mask
        broadcastable to [B, N, T, S]; positions [B, T] or [T] in the sentences of a row, which
        matter only if they act in attention; None: a row is one sentence.
        """
        inputs: dict[str, Any] = dict(mask=mask, encoded=encoded, encoded_mask=encoded_mask)
        inputs["positions"] = jnp.arange(x.shape[1]) if positions is None else positions
        inputs["deterministic"] = deterministic
        is_written_to = self.is_initializing() or self.is_mutable_collection("intermediates")
        if is_written_to or not (self.remat or self.scan_layers):
            for block in self.layer:
                x = block(x, **inputs)
        else:
            x = self._scan_or_remat(x, inputs)
        return self.last_norm(x) if self.last_norm else x

    def _scan_or_remat(self, x: jax.Array, inputs: dict[str, Any]) -> jax.Array:
        """Applies the blocks as a pure function of their weights, scanned or recomputed."""
        unbound, deterministic = self.layer[0].clone(parent=None), inputs["deterministic"]

        def call(x: jax.Array, layer: tuple[Any, jax.Array]) -> tuple[Any, None]:
            params, rng = layer
            rngs = {} if deterministic else {"dropout": rng}
            return unbound.apply({"params": params}, x, **inputs, rngs=rngs), None

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

    def project_keys_values(self, encoded: jax.Array) -> list[KVCache]:
        """Returns the encoded source [B, S, D] as each block's keys and values, projected once."""
        return [
            to_cache_layout(*block.encoder_attention.project_keys_values(encoded))
            for block in self.layer
        ]

    def init_cache(self, batch_size: int, num_beams: int, length: int) -> list[KVCache]:
        """Returns an empty cache per block, for self-attention over `length` columns per beam."""
        c, num_keys = self.config, length * num_beams
        (key_width, value_width), size = c.widths_of_head, (batch_size, c.num_heads)
        zeros = partial(jnp.zeros, dtype=jnp.dtype(c.dtype))
        cache = KVCache(zeros((*size, key_width, num_keys)), zeros((*size, num_keys, value_width)))
        return [cache] * c.depth(is_decoder=self.cross_attention)

    def step(
        self,
        x: jax.Array,
        cache: list[KVCache],
        place: Place,
        *,
        encoded: list[KVCache] | None = None,
        encoded_mask: Array | None = None,
    ) -> tuple[jax.Array, list[KVCache]]:
        """Returns one new position of every beam, [B, W, D], and the cache that includes it.

        x [B, W, D]; encoded: the source as `project_keys_values` returns it.
        """
        unbound = self.layer[0].clone(parent=None)  # a pure function of weights that it is given
        apply = partial(unbound.apply, encoded_mask=encoded_mask, method="step")

        @jax.jit  # traced once for all blocks
        def step(params: Any, x: jax.Array, cache: KVCache, encoded: Any) -> Any:
            return apply({"params": params}, x, cache, place, encoded=encoded)

        cache = [*cache]
        for i, block in enumerate(self.layer):
            params = block.variables["params"]
            x, cache[i] = step(params, x, cache[i], encoded[i] if encoded else None)
        return self.last_norm(x) if self.last_norm else x, cache


class StackModel(nn.Module):
    """Base of the models, with the options of their Stacks that the configuration does not hold."""

    config: ModelConfig
    _: KW_ONLY
    special: SpecialIds = OWN_IDS  # of the vocabulary, of the target's if there are two
    remat: bool = False
    scan_layers: bool = False

    def make_stack(self, **options: Any) -> Stack:
        """Returns a new Stack of this model; options: its other fields."""
        return Stack(self.config, remat=self.remat, scan_layers=self.scan_layers, **options)
