"""Attention: the function softmax(QKᵀ/√d_k)V, and its multi-head module (paper, section 3.2)."""

from functools import partial

import jax
import jax.numpy as jnp
from flax import linen as nn


class Dropout(nn.Module):
    """Zeroes a share `rate` of x and scales up the rest.

    What is kept is decided by a hash of the key and of the place in x, the same on any number of
    devices. JAX's generator takes eight times as long: a sixth of a training step on a CPU.
    """

    rate: float

    @nn.compact
    def __call__(self, x, *, deterministic):
        if deterministic or self.rate == 0.0:
            return x
        lowest = jnp.uint32(round(self.rate * 2**32))
        kept = _hash_of_place(self.make_rng("dropout"), x.shape) >= lowest
        return jnp.where(kept, x / (1.0 - self.rate), jnp.zeros_like(x))


def _hash_of_place(rng, shape):
    """32 bits for every place of an array: two rounds of a keyed integer hash."""
    place = jnp.uint32(0)
    for axis, size in enumerate(shape):
        place = place * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    first, second = jax.random.bits(rng, (2,), jnp.uint32)
    return _mix(_mix(place ^ first) + second)


def _mix(x):
    """Every bit in, every bit out: the shifts and factors of C. Wellons' hash-prospector."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x21F0AAAD)
    x = (x ^ (x >> 15)) * jnp.uint32(0xD35A2D97)
    return x ^ (x >> 15)


FEW_QUERIES = 8  # the beams of a search


def scaled_dot_product_attention(query, key, value, *, mask=None, dropout=None):
    """softmax(QKᵀ/√d_k)V, equation (1); the softmax in float32.

    query [B, T, N, H]; key, value [B, S, N, H]; mask boolean, broadcastable to [B, N, T, S];
    dropout a function applied to the attention weights. Returns [B, T, N, H]. A query that may
    attend to nothing gets the mean of the values: finite, and of no consequence to the loss.
    """
    query = query * query.shape[-1] ** -0.5
    if _is_search_step(query) and dropout is None:
        return _attend_in_loops(query, key, value, mask)
    query, key, value = (x.swapaxes(1, 2) for x in (query, key, value))  # heads first: no strides
    logits = jnp.einsum("BNTH,BNSH->BNTS", query, key, preferred_element_type=jnp.float32)
    if mask is not None:
        logits = jnp.where(mask, logits, jnp.finfo(logits.dtype).min)
    weights = jax.nn.softmax(logits).astype(value.dtype)
    if dropout is not None:
        weights = dropout(weights)
    return jnp.einsum("BNTS,BNSH->BNTH", weights, value).swapaxes(1, 2)


def _is_search_step(query):
    """A few beams of several sentences on a CPU (of one sentence, jax 0.10 compiles it wrong)."""
    rows, num_queries = query.shape[:2]
    return rows > 1 and 1 < num_queries <= FEW_QUERIES and jax.default_backend() == "cpu"


def _attend_in_loops(query, key, value, mask):
    """The same for the few queries of a search step: one loop over everything, not many products.

    A tenth of a step with beam 4 on a CPU. The weights are [B, T, S, N] here.
    """
    logits = (query[:, :, None] * key[:, None]).astype(jnp.float32).sum(-1)
    if mask is not None:
        logits = jnp.where(mask.transpose(0, 2, 3, 1), logits, jnp.finfo(logits.dtype).min)
    weights = jax.nn.softmax(logits, axis=2).astype(value.dtype)
    return (weights[..., None] * value[:, None]).sum(2)


ATTENTION_FUNCTIONS = {"scaled_dot_product": scaled_dot_product_attention}


class MultiHeadAttention(nn.Module):
    """Concat(head_1 … head_N) W^O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    As in the paper the four projections have no bias. Keys and values are projected by
    `keys_values` and passed in, so that a decoder can project the encoded source only once.
    """

    d_model: int
    num_heads: int
    key_dim: int
    value_dim: int
    attention: str = "scaled_dot_product"
    dropout_rate: float = 0.0
    dtype: jnp.dtype = jnp.float32

    def setup(self):
        def projection(width):
            init = nn.initializers.xavier_uniform()
            return nn.Dense(width, use_bias=False, kernel_init=init, dtype=self.dtype)

        self.query, self.key = (projection(self.num_heads * self.key_dim) for _ in range(2))
        self.value = projection(self.num_heads * self.value_dim)
        self.output = projection(self.d_model)
        self.attention_dropout = Dropout(self.dropout_rate)

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
        attended = self._attend(query, keys_values, mask, deterministic)
        return self.output(attended.reshape(*x.shape[:-1], -1))

    def step(self, x, cache, position, *, mask):
        """Self-attention of one new position of every beam to what their ancestors wrote.

        x [B, W, D]; cache leaves [B, T, W, N, H]; position a scalar, the place to write in T; mask
        as `masks.ancestor_mask` makes it. Returns ([B, W, D], cache).
        """
        new = self.keys_values(x)
        write = jax.lax.dynamic_update_slice_in_dim
        cache = {name: write(cache[name], new[name][:, None], position, axis=1) for name in cache}
        seen = {name: a.reshape(len(a), -1, *a.shape[3:]) for name, a in cache.items()}
        return self(x, seen, mask=mask, deterministic=True), cache

    def _attend(self, query, keys_values, mask, deterministic):
        attention_fn = ATTENTION_FUNCTIONS[self.attention]
        key, value = keys_values["key"], keys_values["value"]
        if self.is_mutable_collection("intermediates"):
            # Attending to one-hot values returns the attention weights themselves, [B, T, N, S].
            one_hot = jnp.eye(key.shape[1], dtype=value.dtype)[None, :, None, :]
            one_hot = jnp.broadcast_to(one_hot, (*key.shape[:3], key.shape[1]))
            self.sow("intermediates", "weights", attention_fn(query, key, one_hot, mask=mask))
        dropout = None
        if self.dropout_rate and not deterministic:
            dropout = partial(self.attention_dropout, deterministic=False)
        return attention_fn(query, key, value, mask=mask, dropout=dropout)
