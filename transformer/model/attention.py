"""Multi-head attention (paper, section 3.2) with any attention function."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.arrays import Array
from transformer.model.attention_functions import AttentionFunction
from transformer.model.dropout import Dropout
from transformer.model.initializers import kernel_init
from transformer.model.kv_cache import (
    KeysValues,
    KVCache,
    attend_to_cache,
    from_cache_layout,
    to_cache_layout,
    write,
)
from transformer.model.relative_positions import make_relative_positions, steps_since
from transformer.model.sparse_attention import PATTERNS
from transformer.registry import ATTENTION_FUNCTIONS, HARD_ATTENTION

# Equation (1), with or without its scale: a search computes these from the cache as it is.
SCALED_PRODUCTS = "scaled_dot_product", "fused", *PATTERNS
PRODUCTS = (*SCALED_PRODUCTS, "dot_product")


def make_attention_fn(name: str, config: ModelConfig) -> AttentionFunction:
    """Returns the attention function of that name, with its options from the configuration."""
    attention_fn = ATTENTION_FUNCTIONS[name]
    if isinstance(attention_fn, type):
        fields = getattr(attention_fn, "__dataclass_fields__", {})
        options = dict(config=config) if "config" in fields else {}
        return attention_fn(**options, name="alignment")  # as its weights are called in checkpoints
    if name in PATTERNS:
        return partial(attention_fn, block=config.attention_block, pattern=name)
    if name == "performer":
        return partial(attention_fn, num_features=config.attention_features)
    return attention_fn


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_N) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    As in the paper the four projections have no bias, unless `config.projection_bias`. Keys and
    values are projected apart, by `project_keys_values`, so that a search projects the encoded
    source only once. `attention` is a name in `registry.ATTENTION_FUNCTIONS`.
    """

    config: ModelConfig
    attention: str

    def setup(self) -> None:
        c = self.config
        key_dim, value_dim = c.widths_of_head

        def projection(width: int, *, ends_sublayer: bool = False) -> nn.Dense:
            init = kernel_init(c, ends_sublayer=ends_sublayer)
            bias, dtype = c.projection_bias, jnp.dtype(c.dtype)
            return nn.Dense(width, use_bias=bias, kernel_init=init, dtype=dtype)

        self.query, self.key = (projection(c.num_heads * key_dim) for _ in range(2))
        self.value = projection(c.num_heads * value_dim)
        self.output = projection(c.d_model, ends_sublayer=True)
        self.attention_dropout = Dropout(c.attention_dropout_rate)
        self.attention_fn = make_attention_fn(self.attention, c)
        self.relative_positions = make_relative_positions(c)

    def _split_heads(self, x: jax.Array) -> jax.Array:
        """Splits [B, T, N·H] into heads [B, T, N, H]."""
        x = x.reshape(*x.shape[:-1], self.config.num_heads, -1)
        return nn.with_logical_constraint(x, ("batch", "length", "heads", "head_dim"))

    def _join_heads(self, x: jax.Array) -> jax.Array:
        """Projects the heads [B, T, N, H] to [B, T, D]."""
        return self.output(x.reshape(*x.shape[:-2], -1))

    def project_keys_values(self, x: jax.Array) -> KeysValues:
        """Returns the keys and values of x [B, S, D]."""
        return KeysValues(self._split_heads(self.key(x)), self._split_heads(self.value(x)))

    def __call__(
        self,
        x: jax.Array,
        keys_values: KeysValues,
        *,
        mask: Array | None,
        positions: Array | None = None,
        deterministic: bool,
    ) -> jax.Array:
        """Attends from x [B, T, D] to keys and values; returns [B, T, D].

        mask: broadcastable to [B, N, T, S]. positions: only if they act in this attention, those of
        the keys, [B, S] or [S]; the last T are the queries'. The collection "intermediates", if it
        is mutable, receives the attention weights [B, T, N, S] as "weights".
        """
        query, bias = self._split_heads(self.query(x)), None
        if positions is not None:
            query, key, bias = self.relative_positions.place(query, keys_values.key, positions)
            keys_values = keys_values._replace(key=key)
        attend = partial(self._attend, bias=bias)
        if self.is_mutable_collection("intermediates"):
            self.sow("intermediates", "weights", _weights(attend, query, keys_values, mask))
        dropout = None
        needs_dropout = self.config.attention_dropout_rate or self.attention in HARD_ATTENTION
        if needs_dropout and not deterministic:
            dropout = partial(self.attention_dropout, deterministic=False)
        return self._join_heads(attend(query, *keys_values, mask=mask, dropout=dropout))

    def _attend(self, *arrays: jax.Array, bias: jax.Array | None, **options: Any) -> jax.Array:
        """Calls the attention function, which need not know of a bias if there is none.

        Raises ValueError if one of the user's own returns an array of another shape.
        """
        options |= {} if bias is None else {"bias": bias}
        attended = self.attention_fn(*arrays, **options)
        query, _, value = arrays
        shape = (*query.shape[:-1], value.shape[-1])
        if (found := getattr(attended, "shape", type(attended).__name__)) != shape:
            raise ValueError(
                f"model.attention={self.attention} must return an array [B, T, N, H], here "
                f"{shape}, not {found}."
            )
        return attended

    def step(
        self,
        x: jax.Array,
        cache: KVCache,
        column: jax.Array | int,
        *,
        mask: jax.Array,
        positions: jax.Array | None = None,
    ) -> tuple[jax.Array, KVCache]:
        """Attends from one new position of every beam to what its ancestors wrote.

        x [B, W, D]; column: a scalar, where x is written; mask: see `masks.ancestor_mask`;
        positions [B]: of x, only if they act in this attention. Returns ([B, W, D], the cache with
        the keys and values of x).
        """
        query, new, bias = self._split_heads(self.query(x)), self.project_keys_values(x), None
        distances = steps_since(column, mask.shape[-1] // x.shape[1], x.shape[1])
        if positions is not None:
            scheme, positions = self.relative_positions, positions[:, None]
            query, key = (scheme.rotate(heads, positions) for heads in (query, new.key))
            new, bias = new._replace(key=key), scheme.bias(query, -distances[None, None])
        cache = write(cache, to_cache_layout(new), column)
        if self.attention in PATTERNS:  # in a cache the pattern has to be a mask
            position, is_seen = mask.sum(-1, keepdims=True) - 1, PATTERNS[self.attention]
            mask = mask & is_seen(position, position - distances, self.config.attention_block)
        return self._attend_to_cache(query, cache, mask, bias), cache

    def attend_to_cache(self, x: jax.Array, cache: KVCache, *, mask: jax.Array) -> jax.Array:
        """Attends from one position of every beam, x [B, W, D], to a cache; returns [B, W, D]."""
        return self._attend_to_cache(self._split_heads(self.query(x)), cache, mask, None)

    def _attend_to_cache(
        self, query: jax.Array, cache: KVCache, mask: jax.Array, bias: jax.Array | None
    ) -> jax.Array:
        if self.attention not in PRODUCTS:
            attended = self._attend(query, *from_cache_layout(cache), mask=mask, bias=bias)
        else:
            if self.attention in SCALED_PRODUCTS:
                query = query * query.shape[-1] ** -0.5
            attended = attend_to_cache(query, cache, mask, bias)
        return self._join_heads(attended)


def _weights(
    attend: AttentionFunction, query: jax.Array, keys_values: KeysValues, mask: Array | None
) -> jax.Array:
    """Returns the attention weights [B, T, N, S]: what attending to one-hot values gives."""
    key, value = keys_values
    one_hot = jnp.eye(key.shape[1], dtype=value.dtype)[None, :, None, :]
    one_hot = jnp.broadcast_to(one_hot, (*key.shape[:3], key.shape[1]))
    return attend(query, key, one_hot, mask=mask)
