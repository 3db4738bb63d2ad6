"""Multi-head attention over any alignment of queries and keys (paper, section 3.2), and dropout."""

from functools import partial

import jax.numpy as jnp
from flax import linen as nn

from transformer.model.attention_functions import (
    AdditiveAttention,
    GeneralAttention,
    dot_product_attention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer.model.dropout import Dropout
from transformer.model.efficient_attention import is_in_window, local_attention, performer_attention
from transformer.model.kv_cache import attend_to_cache, from_cache_layout, to_cache_layout, write

ATTENTION_FUNCTIONS = {  # of `config.model.attention`; the seam is in the docstring of `alignment`
    "scaled_dot_product": scaled_dot_product_attention,
    "dot_product": dot_product_attention,
    "fused": fused_attention,
    "local": local_attention,
    "performer": performer_attention,
}
EXACT_PRODUCTS = "scaled_dot_product", "dot_product", "fused", "local"  # alike to a search
ATTENTION_MODULES = {"general": GeneralAttention, "additive": AdditiveAttention}  # have weights


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_N) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    As in the paper the four projections have no bias. Keys and values are projected by
    `keys_values` and passed in, so that a decoder can project the encoded source only once.
    `attention` names what aligns queries and keys, a function or a module with weights; block and
    num_features are for "local" and "performer".
    """

    d_model: int
    num_heads: int
    key_dim: int
    value_dim: int
    attention: str = "scaled_dot_product"
    dropout_rate: float = 0.0
    dtype: jnp.dtype = jnp.float32
    block: int = 64
    num_features: int = 256

    def setup(self):
        def projection(width):
            init = nn.initializers.xavier_uniform()
            return nn.Dense(width, use_bias=False, kernel_init=init, dtype=self.dtype)

        self.query, self.key = (projection(self.num_heads * self.key_dim) for _ in range(2))
        self.value = projection(self.num_heads * self.value_dim)
        self.output = projection(self.d_model)
        self.attention_dropout = Dropout(self.dropout_rate)
        self.alignment = self._make_alignment()

    def _make_alignment(self):
        if self.attention in ATTENTION_MODULES:
            return ATTENTION_MODULES[self.attention]()
        options = {
            "local": dict(block=self.block),
            "performer": dict(num_features=self.num_features),
        }
        return partial(ATTENTION_FUNCTIONS[self.attention], **options.get(self.attention, {}))

    def _split_heads(self, x):
        x = x.reshape(*x.shape[:-1], self.num_heads, -1)
        return nn.with_logical_constraint(x, ("batch", "length", "heads", "head_dim"))

    def keys_values(self, x):
        """x [B, S, D] -> {"key", "value"}, each [B, S, N, H]."""
        return {
            "key": self._split_heads(self.key(x)),
            "value": self._split_heads(self.value(x)),
        }

    def __call__(self, x, keys_values, *, mask, deterministic):
        """Attends from x [B, T, D] to `keys_values` under `mask`; returns [B, T, D]."""
        query = self._split_heads(self.query(x))
        key, value = keys_values["key"], keys_values["value"]
        if self.is_mutable_collection("intermediates"):
            # Attending to one-hot values returns the attention weights themselves, [B, T, N, S].
            one_hot = jnp.eye(key.shape[1], dtype=value.dtype)[None, :, None, :]
            one_hot = jnp.broadcast_to(one_hot, (*key.shape[:3], key.shape[1]))
            self.sow("intermediates", "weights", self.alignment(query, key, one_hot, mask=mask))
        dropout = None
        if self.dropout_rate and not deterministic:
            dropout = partial(self.attention_dropout, deterministic=False)
        attended = self.alignment(query, key, value, mask=mask, dropout=dropout)
        return self.output(attended.reshape(*x.shape[:-1], -1))

    def step(self, x, cache, position, *, mask):
        """Self-attention of one new position of every beam to what their ancestors wrote.

        x [B, W, D]; cache as in `key_value_cache`; position a scalar, the place to write; mask as
        `masks.ancestor_mask` makes it. Returns ([B, W, D], cache).
        """
        cache = write(cache, to_cache_layout(self.keys_values(x)), position)
        if self.attention == "local":  # these keys stand in no row: here the window is a mask
            places = jnp.arange(mask.shape[-1]) // x.shape[1]
            mask = mask & is_in_window(position, places, self.block)
        return self.look(x, cache, mask=mask), cache

    def look(self, x, cache, *, mask):
        """Attention of one position of every beam, x [B, W, D], to a cache; returns [B, W, D]."""
        query = self._split_heads(self.query(x))
        if self.attention in EXACT_PRODUCTS:
            if self.attention != "dot_product":
                query = query * query.shape[-1] ** -0.5
            attended = attend_to_cache(query, cache, mask)
        else:
            attended = self.alignment(query, *from_cache_layout(cache), mask=mask)
        return self.output(attended.reshape(*x.shape[:-1], -1))
