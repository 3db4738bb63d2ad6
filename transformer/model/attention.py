"""Multi-head attention (paper, section 3.2) with any attention function, its masks and its cache.

A mask says who may attend to whom: boolean, True = may attend, broadcastable to [B, N, T, S]. A row
of ids may hold several sentences (packing). Its `segments` number them from 1; 0 is padding.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from transformer.config import ModelConfig
from transformer.model.attention_functions import AttentionFunction, attend, mask_logits
from transformer.model.primitives import Array, Dropout, kernel_init
from transformer.model.relative_positions import acts_in_attention, steps_since
from transformer.model.sparse_attention import PATTERNS
from transformer.registry import ATTENTION_FUNCTIONS, HARD_ATTENTION, POSITION_ENCODINGS

# Equation (1), with or without its scale: a search computes these from the cache as it is.
PRODUCTS = "scaled_dot_product", "dot_product", "fused", *PATTERNS


def segment_mask(query_segments: Array, key_segments: Array) -> jax.Array:
    """Returns the mask [B, N=1, T, S] of keys in the same sentence as the query.

    query_segments [B, T], key_segments [B, S]. Padding is not attended to: for the query segments
    1 2 0 and the key segments 1 1 2 0 the mask is

        x x . .
        . . x .
        . . . .
    """
    is_same = query_segments[:, :, None] == key_segments[:, None, :]
    return (is_same & (key_segments != 0)[:, None, :])[:, None]


def ancestor_mask(ancestors: Array) -> jax.Array:
    """Returns the mask [B, N=1, W, L·W] of the keys that a hypothesis' ancestors wrote.

    ancestors [B, W, L]: the beam that wrote column c of hypothesis w, -1 where none of them has.
    The keys are ordered by column, and by beam within a column. For W = 2 beams, of which
    hypothesis 0 continued what beam 1 wrote in column 0, and L = 3:

        ancestors         keys (column, beam)  (0,0) (0,1) (1,0) (1,1) (2,0) (2,1)
        1  0 -1           hypothesis 0           .     x     x     .     .     .
        1  1 -1           hypothesis 1           .     x     .     x     .     .
    """
    width = ancestors.shape[1]
    mask = ancestors[..., None] == jnp.arange(width)
    return mask.reshape(*mask.shape[:2], -1)[:, None]


def causal_mask(length: int) -> jax.Array:
    """Returns the mask [B=1, N=1, T, S=T] that hides later positions (paper, section 3.2.3)."""
    return jnp.tril(jnp.ones((length, length), bool))[None, None]


KeysValues = tuple[jax.Array, jax.Array]  # each [B, S, N, H], as an attention function takes them


class KVCache(NamedTuple):
    """Keys and values in the layout of a search step, of few queries at a time.

    The products of a step then run along rows without copying them. Self-attention of W beams over
    L columns has S = L·W keys, ordered by column, and by beam within a column: beam w's key in
    column c has index c·W + w, so a step writes one contiguous slice. For W = 2 and L = 3 a step
    into column 1 writes the indices 2 and 3:

        index    0 1   2 3   4 5
        column   0 0   1 1   2 2
        beam     0 1   0 1   0 1

    All sentences of a batch write one column at a time, whatever their positions (see `decoding`).
    Attention to the source has the S keys of the sentence, which all beams share.
    """

    key: jax.Array  # [B, N, H, S]
    value: jax.Array  # [B, N, S, H]


class Place(NamedTuple):
    """Where a step of a search writes in the cache, and what it sees (see `search.decoding`)."""

    column: jax.Array | int  # a scalar
    positions: jax.Array  # [B], of what is written, in its sentence
    ancestors: jax.Array  # [B, W, L], see `ancestor_mask`


def to_cache_layout(key: jax.Array, value: jax.Array) -> KVCache:
    """Returns keys and values [B, S, N, H] in the layout of a cache."""
    return KVCache(key.transpose(0, 2, 3, 1), value.swapaxes(1, 2))


def make_attention_fn(name: str, config: ModelConfig) -> AttentionFunction:
    """Returns the attention function of that name, with its options from the configuration."""
    attention_fn, options = ATTENTION_FUNCTIONS[name], {}
    if name in PATTERNS:
        options = dict(block=config.attention_block, pattern=name)
    if name == "location":
        options = dict(num_positions=config.max_positions)
    if isinstance(attention_fn, type):
        if "config" in getattr(attention_fn, "__dataclass_fields__", {}):
            options = dict(config=config)
        return attention_fn(**options, name="alignment")  # as its weights are called in checkpoints
    return partial(attention_fn, **options)


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_N) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    As in the paper the four projections have no bias, unless `config.projection_bias`. `attention`
    is a name in `registry.ATTENTION_FUNCTIONS`.
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
        if acts_in_attention(c):
            self.relative_positions = POSITION_ENCODINGS[c.positions](c)

    def _split_heads(self, x: jax.Array) -> jax.Array:
        """Splits [B, T, N·H] into heads [B, T, N, H]."""
        x = x.reshape(*x.shape[:-1], self.config.num_heads, -1)
        return nn.with_logical_constraint(x, ("batch", "length", "heads", "head_dim"))

    def _join_heads(self, x: jax.Array) -> jax.Array:
        """Projects the heads [B, T, N, H] to [B, T, D]."""
        return self.output(x.reshape(*x.shape[:-2], -1))

    def __call__(self, x: jax.Array, source: jax.Array, **options: Any) -> jax.Array:
        """Returns `attend_to` [B, T, D] from x [B, T, D] to source [B, S, D], which may be x."""
        return self.attend_to(x, self.project_keys_values(source), **options)

    def project_keys_values(self, source: jax.Array) -> KeysValues:
        """Returns the keys and values of source [B, S, D], which a search projects only once."""
        return self._split_heads(self.key(source)), self._split_heads(self.value(source))

    def attend_to(
        self,
        x: jax.Array,
        keys_values: KeysValues,
        *,
        mask: Array | None,
        positions: Array | None = None,
        deterministic: bool,
    ) -> jax.Array:
        """Attends from x [B, T, D] to keys and values; returns [B, T, D].

        mask: broadcastable to [B, N, T, S]. positions: in self-attention, those of the keys, [B, S]
        or [S]; the last T are the queries'. The collection "intermediates", if it is mutable,
        receives the attention weights [B, T, N, S] as "weights".
        """
        query, (key, value), bias = self._split_heads(self.query(x)), keys_values, None
        if positions is not None and acts_in_attention(self.config):
            scheme, first = self.relative_positions, key.shape[1] - query.shape[1]
            positions, columns = jnp.atleast_2d(positions), jnp.arange(key.shape[1])
            query = scheme.rotate(query, positions[:, first:])
            key = scheme.rotate(key, positions)
            # Positions of a sentence follow each other, as its columns do: one bias for all rows.
            bias = scheme.bias(query, (columns - columns[first:, None])[None])
        if self.is_mutable_collection("intermediates"):  # what attending to one-hot values gives
            one_hot = jnp.eye(key.shape[1], dtype=value.dtype)[None, :, None, :]
            one_hot = jnp.broadcast_to(one_hot, (*key.shape[:3], key.shape[1]))
            weights = self._attend(query, key, one_hot, mask=mask, bias=bias)
            self.sow("intermediates", "weights", weights)
        dropout = None
        needs_dropout = self.config.attention_dropout_rate or self.attention in HARD_ATTENTION
        if needs_dropout and not deterministic:
            dropout = partial(self.attention_dropout, deterministic=False)
        attended = self._attend(query, key, value, mask=mask, bias=bias, dropout=dropout)
        return self._join_heads(attended)

    def _attend(self, *arrays: jax.Array, bias: jax.Array | None, **options: Any) -> jax.Array:
        """Calls the attention function, which need not know of a bias if there is none.

        Raises ValueError if one of the user's own returns an array of another shape.
        """
        options |= {} if bias is None else {"bias": bias}
        attended = self.attention_fn(*arrays, **options)
        query, _, value = arrays
        shape = (*query.shape[:-1], value.shape[-1])
        if (returned := getattr(attended, "shape", type(attended).__name__)) != shape:
            raise ValueError(
                f"model.attention={self.attention} must return an array [B, T, N, H], here "
                f"{shape}, not {returned}."
            )
        return attended

    def step(self, x: jax.Array, cache: KVCache, place: Place) -> tuple[jax.Array, KVCache]:
        """Attends from a new position of every beam, x [B, W, D], to what its ancestors wrote.

        Returns ([B, W, D], the cache with the keys and values of x).
        """
        column, positions, ancestors = place
        num_beams, num_columns = ancestors.shape[1:]
        query, (key, value) = self._split_heads(self.query(x)), self.project_keys_values(x)
        distances, bias = steps_since(column, num_columns), None
        if acts_in_attention(self.config):
            scheme = self.relative_positions
            query, key = (scheme.rotate(heads, positions[:, None]) for heads in (query, key))
            bias = scheme.bias(query, -jnp.repeat(distances, num_beams)[None, None])
        key, value = to_cache_layout(key, value)
        write, start = jax.lax.dynamic_update_slice_in_dim, column * num_beams
        key = write(cache.key, key, start, axis=3)
        cache = KVCache(key, write(cache.value, value, start, axis=2))
        if self.attention in PATTERNS:  # in a cache the pattern has to be a mask
            own, is_seen = positions[:, None, None], PATTERNS[self.attention]
            seen = is_seen(own, own - distances, self.config.attention_block)
            ancestors = jnp.where(seen, ancestors, -1)
        return self._attend_to_cache(query, cache, ancestor_mask(ancestors), bias), cache

    def attend_to_cache(self, x: jax.Array, cache: KVCache, *, mask: jax.Array) -> jax.Array:
        """Attends from one position of every beam, x [B, W, D], to a cache; returns [B, W, D]."""
        return self._attend_to_cache(self._split_heads(self.query(x)), cache, mask, None)

    def _attend_to_cache(
        self, query: jax.Array, cache: KVCache, mask: jax.Array, bias: jax.Array | None
    ) -> jax.Array:
        """Returns [B, W, D] of query [B, W, N, H]; the products are computed from the cache as is.

        mask: broadcastable to [B, N=1, W, S]; bias: float32, to [B, N, W, S].
        """
        key, value = cache
        if self.attention not in PRODUCTS:
            rows = key.transpose(0, 3, 1, 2), value.swapaxes(1, 2)  # [B, S, N, H]
            return self._join_heads(self._attend(query, *rows, mask=mask, bias=bias))
        if self.attention != "dot_product":
            query = query * query.shape[-1] ** -0.5
        if query.shape[1] > 1:
            logits = jnp.einsum("BWNH,BNHS->BNWS", query, key, preferred_element_type=jnp.float32)
            logits = logits if bias is None else logits + bias
            return self._join_heads(attend(logits, value, mask))
        # Products of a vector: without the axis W they are a third faster.
        logits = jnp.einsum("BNH,BNHS->BNS", query[:, 0], key, preferred_element_type=jnp.float32)
        logits = logits if bias is None else logits + bias[:, :, 0]
        weights = jax.nn.softmax(mask_logits(logits, mask[:, :, 0])).astype(value.dtype)
        return self._join_heads(jnp.einsum("BNS,BNSH->BNH", weights, value)[:, None])
