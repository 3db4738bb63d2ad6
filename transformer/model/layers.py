"""Feed-forward, residual connection and Block: a layer of the paper's Figure 1."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.arrays import Array
from transformer.model.attention import MultiHeadAttention
from transformer.model.dropout import Dropout
from transformer.model.initializers import kernel_init
from transformer.model.kv_cache import KVCache
from transformer.model.layer_norm import make_layer_norm
from transformer.registry import SELF_ATTENTION_ONLY, SOURCE_ATTENTION_ONLY

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

    Used as `x = residual.add(x, sublayer(residual.sublayer_input(x)), deterministic=…)`.
    """

    config: ModelConfig

    def setup(self) -> None:
        self.layer_norm = make_layer_norm(self.config, name="LayerNorm_0")
        self.dropout = Dropout(self.config.dropout_rate, name="Dropout_0")

    def sublayer_input(self, x: jax.Array) -> jax.Array:
        """Returns what the sub-layer is given, [..., D]."""
        return self.layer_norm(x) if self.config.norm == "pre" else x

    def add(self, x: jax.Array, y: jax.Array, *, deterministic: bool) -> jax.Array:
        """Adds the result y [..., D] of the sub-layer to x [..., D]."""
        x = x + self.dropout(y, deterministic=deterministic)
        return x if self.config.norm == "pre" else self.layer_norm(x)


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
        name = self.config.attention
        paper = "scaled_dot_product"
        self.self_attention = self.make_attention(paper if name in SOURCE_ATTENTION_ONLY else name)
        self.self_residual = Residual(self.config)
        if self.cross_attention:
            self.encoder_attention = self.make_attention(
                paper if name in SELF_ATTENTION_ONLY else name
            )
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
        deterministic: bool,
        **place: Array,
    ) -> jax.Array:
        """Returns [B, T, D] of x [B, T, D]; encoded [B, S, D] is the source.

        place: `positions` [B, T] or [T], if they act in self-attention.
        """
        attention, residual = self.self_attention, self.self_residual
        y = residual.sublayer_input(x)
        keys_values = attention.project_keys_values(y)
        y = attention(y, keys_values, mask=mask, deterministic=deterministic, **place)
        x = residual.add(x, y, deterministic=deterministic)
        if self.cross_attention:
            attention, residual = self.encoder_attention, self.encoder_residual
            y = residual.sublayer_input(x)
            keys_values = attention.project_keys_values(encoded)
            y = attention(y, keys_values, mask=encoded_mask, deterministic=deterministic)
            x = residual.add(x, y, deterministic=deterministic)
        x = self._add_feed_forward(x, deterministic=deterministic)
        return nn.with_logical_constraint(x, ("batch", "length", "embed"))

    def step(
        self,
        x: jax.Array,
        cache: KVCache,
        column: jax.Array | int,
        *,
        mask: jax.Array,
        encoded: KVCache | None = None,
        encoded_mask: Array | None = None,
        **place: jax.Array,
    ) -> tuple[jax.Array, KVCache]:
        """Returns one new position of every beam, [B, W, D], and the cache that includes it.

        x [B, W, D]; column: where in the cache it is written; encoded: the source as this block's
        keys and values; place: `positions` [B], if they act in self-attention.
        """
        y = self.self_residual.sublayer_input(x)
        y, cache = self.self_attention.step(y, cache, column, mask=mask, **place)
        x = self.self_residual.add(x, y, deterministic=True)
        if self.cross_attention:
            y = self.encoder_residual.sublayer_input(x)
            y = self.encoder_attention.attend_to_cache(y, encoded, mask=encoded_mask)
            x = self.encoder_residual.add(x, y, deterministic=True)
        return self._add_feed_forward(x, deterministic=True), cache

    def _add_feed_forward(self, x: jax.Array, *, deterministic: bool) -> jax.Array:
        y = self.feed_forward(self.feed_forward_residual.sublayer_input(x))
        return self.feed_forward_residual.add(x, y, deterministic=deterministic)
