"""Equation (1) in one kernel for TPUs, which never stores the attention weights in memory.

For one sentence row and all heads the products, the softmax and their gradients stay in a core's
own memory (VMEM). A block holds some queries and all keys, so its softmax is complete at once; the
backward pass computes the weights again from queries and keys (as Dao et al., arXiv 2205.14135).
Heads lie side by side, [B, T, N·H], as the projections leave them: nothing is transposed, and a
head of 64 is not padded to the 128 lanes of a TPU.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import PartitionSpec

from transformer.model.primitives import Array

LANES = 128  # the width of a TPU's vectors, and of a block
MAX_WEIGHTS = 2**18  # of a head in a block: 256 queries by 1,024 keys, or 128 by 2,048
MAX_KEYS = MAX_WEIGHTS // LANES  # of the fewest queries in a block


def kernel_takes(query: jax.Array, key: jax.Array, value: jax.Array, mask: Array | None) -> bool:
    """Returns whether the shapes suit the kernel: rows of 128, 256, … positions, as in training.

    query [B, T, N, H], key and value [B, S, N, H], mask broadcastable to [B, N, T, S]. The mask has
    to be the same for all heads.
    """
    lengths = query.shape[1], key.shape[1]
    return (
        all(isinstance(length, int) and length % LANES == 0 for length in lengths)
        and key.shape[1] <= MAX_KEYS
        and query.shape[2] * query.shape[3] % LANES == 0
        and LANES % query.shape[3] == 0
        and query.shape[3] == value.shape[3]
        and query.dtype == key.dtype == value.dtype
        and mask is not None
        and mask.shape[1] == 1
    )


def attend_in_kernel(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array, interpret: bool = False
) -> jax.Array:
    """Returns softmax(QKᵀ)V, the softmax in float32: [B, T, N, H].

    query [B, T, N, H], scaled; key and value [B, S, N, H]; mask boolean, broadcastable to
    [B, 1, T, S]. interpret: computes what the kernel would, on any platform.
    """
    return _call(_forward_kernel, mask, query, key, value, interpret=interpret)[0]


def gradients_in_kernel(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: jax.Array,
    gradient: jax.Array,  # [B, T, N, H], of the result
    interpret: bool = False,
) -> list[jax.Array]:
    """Returns the gradients of query, key and value by that of `attend_in_kernel`."""
    return _call(_backward_kernel, mask, query, key, value, gradient, interpret=interpret)


def _call(
    kernel: Callable[..., None], mask: jax.Array, *arrays: jax.Array, interpret: bool
) -> list[jax.Array]:
    """Calls a kernel on each device of a mesh with the rows and heads that lie there."""
    query, key = arrays[:2]
    visible = jnp.broadcast_to(mask[:, 0], (len(mask), query.shape[1], key.shape[1]))
    call = partial(_call_on_device, partial(kernel, query.shape[3]), interpret)
    rows, _, heads = nn.logical_to_mesh_axes(("batch", None, "heads")) or (None, None, None)
    if rows or heads:  # a compiler that divides arrays over a mesh cannot look into a kernel
        spec = PartitionSpec(rows, None, heads)
        mask_spec = PartitionSpec(rows if len(mask) > 1 else None)
        in_specs = (mask_spec, *[spec] * len(arrays))
        call = jax.shard_map(call, in_specs=in_specs, out_specs=spec, check_vma=False)
    results = call(visible.astype(jnp.int8), *(x.reshape(*x.shape[:2], -1) for x in arrays))
    return [x.reshape(*x.shape[:2], *query.shape[2:]) for x in results]


def _call_on_device(
    kernel: Callable[..., None], interpret: bool, visible: jax.Array, *arrays: jax.Array
) -> list[jax.Array]:
    """Returns [query], or the gradients of [query, key, value] if that of the result is given.

    visible [B or 1, T, S] as int8; the arrays have their heads side by side: [B, T, N·H]. A block
    is `LANES` wide, two heads of 64, or has all heads if a mesh left fewer; and it has as many
    queries as fit: with 16 heads of 64 and 1,024 keys 256 queries, so that the grid for 1,024
    queries is (B, 8, 4).
    """
    (num_rows, num_queries, width), num_keys = arrays[0].shape, arrays[1].shape[1]
    rows_of_mask = len(visible)
    block = next(n for n in (256, LANES) if num_queries % n == 0 and n * num_keys <= MAX_WEIGHTS)
    lanes = LANES if width % LANES == 0 else width
    of_mask = pl.BlockSpec((1, block, num_keys), lambda row, group, i: (row % rows_of_mask, i, 0))
    of_query = pl.BlockSpec((1, block, lanes), lambda row, group, i: (row, i, group))
    of_key = pl.BlockSpec((1, num_keys, lanes), lambda row, group, i: (row, 0, group))
    specs, is_backward = [of_query, of_key, of_key, of_query], len(arrays) == 4
    results = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays[: 3 if is_backward else 1]]
    num_products = 5 if is_backward else 2  # of [T, H] and [H, S], or alike
    cost = pl.CostEstimate(
        flops=2 * num_products * arrays[0].size * num_keys,
        transcendentals=arrays[0].size // LANES * num_keys,
        bytes_accessed=num_rows * visible[0].size
        + sum(x.size * x.dtype.itemsize for x in (*arrays, *results)),
    )
    return pl.pallas_call(
        kernel,
        grid=(num_rows, width // lanes, num_queries // block),
        in_specs=[of_mask, *specs[: len(arrays)]],
        out_specs=specs[: len(results)],
        out_shape=results,
        scratch_shapes=[pltpu.VMEM((num_keys, lanes), jnp.float32)] * 2 if is_backward else [],
        cost_estimate=cost,
        interpret=interpret,
    )(visible, *arrays)


def _product(x: jax.Array, y: jax.Array, x_axis: int, y_axis: int) -> jax.Array:
    """Returns the product of two matrices over these axes, in float32."""
    dimensions = (((x_axis,), (y_axis,)), ((), ()))
    return jax.lax.dot_general(x, y, dimensions, preferred_element_type=jnp.float32)


def _weights(query: jax.Array, key: jax.Array, is_visible: jax.Array) -> jax.Array:
    """Returns the attention weights of one head [T, S], float32."""
    logits = _product(query, key, 1, 1)
    logits = jnp.where(is_visible, logits, jnp.finfo(logits.dtype).min)
    exponentials = jnp.exp(logits - logits.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def _forward_kernel(head_dim: int, *refs: Any) -> None:
    visible_ref, query_ref, key_ref, value_ref, attended_ref = refs
    is_visible = visible_ref[0].astype(jnp.int32) != 0
    for lane in range(0, query_ref.shape[2], head_dim):  # heads of 64: the lanes 0:64, 64:128, …
        head = slice(lane, lane + head_dim)
        value = value_ref[0, :, head]
        weights = _weights(query_ref[0, :, head], key_ref[0, :, head], is_visible)
        attended = _product(weights.astype(value.dtype), value, 1, 0)
        attended_ref[0, :, head] = attended.astype(attended_ref.dtype)


def _backward_kernel(head_dim: int, visible_ref: Any, *refs: Any) -> None:
    """Writes the gradients of the queries; adds up those of keys and values over the queries."""
    query_ref, *_, query_gradient_ref, key_gradient_ref, value_gradient_ref = refs[:7]
    key_sum_ref, value_sum_ref = refs[7:]

    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        key_sum_ref[...] = jnp.zeros_like(key_sum_ref)
        value_sum_ref[...] = jnp.zeros_like(value_sum_ref)

    is_visible = visible_ref[0].astype(jnp.int32) != 0
    for lane in range(0, query_ref.shape[2], head_dim):
        head = slice(lane, lane + head_dim)
        query, key, value, gradient = (ref[0, :, head] for ref in refs[:4])
        weights = _weights(query, key, is_visible)
        value_sum_ref[:, head] += _product(weights.astype(value.dtype), gradient, 0, 0)
        weights_gradient = _product(gradient, value, 1, 1)
        logits_gradient = weights * (
            weights_gradient - (weights * weights_gradient).sum(1, keepdims=True)
        )
        logits_gradient = jnp.where(is_visible, logits_gradient, 0.0).astype(query.dtype)
        query_gradient = _product(logits_gradient, key, 1, 0)
        query_gradient_ref[0, :, head] = query_gradient.astype(query_gradient_ref.dtype)
        key_sum_ref[:, head] += _product(logits_gradient, query, 0, 0)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        key_gradient_ref[0] = key_sum_ref[...].astype(key_gradient_ref.dtype)
        value_gradient_ref[0] = value_sum_ref[...].astype(value_gradient_ref.dtype)
