"""Exact attention: softmax(QKᵀ)V, as suits the platform.

An attention function is called with query [B, T, N, H], key and value [B, S, N, H], `mask` boolean
and broadcastable to [B, N, T, S], and `dropout`, a function of the attention weights; it returns
[B, T, N, H]. What it cannot honour it refuses with ValueError. A query that may attend to nothing
gets the mean of the values: finite, and of no consequence to the loss. The two functions that add a
`bias` to the logits (see `relative_positions`) take it in float32, broadcastable to [B, N, T, S].
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from transformer.model.attention_kernel import attend_in_kernel, gradients_in_kernel, kernel_takes
from transformer.model.primitives import Array

CUDNN_WIDTH = 128  # the widest head that cuDNN takes on every GPU that has its kernel

WeightsDropout = Callable[[jax.Array], jax.Array]
AttentionFunction = Callable[..., jax.Array]  # also a module with weights of its own


def scaled_dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Returns softmax(QKᵀ/√d_k + bias)V, equation (1) of the paper; the softmax in float32."""
    query = query * query.shape[-1] ** -0.5
    if dropout is not None or bias is not None or not kernel_takes(query, key, value, mask):
        return dot_product_attention(query, key, value, mask=mask, dropout=dropout, bias=bias)
    return _attend_on_platform(query, key, value, jnp.asarray(mask))


@jax.custom_vjp
def _attend_on_platform(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array
) -> jax.Array:
    """Attends as suits the platform that the program is compiled for: on a TPU by the kernel.

    Nothing is kept for the gradient but the arguments. What a CPU or GPU would compute again for
    it, the compiler finds to be computed already, unless the layers are a loop.
    """
    arrays = query, key, value, mask
    return jax.lax.platform_dependent(*arrays, tpu=attend_in_kernel, default=dot_product_attention)


def _gradients_on_platform(
    arrays: tuple[jax.Array, ...], gradient: jax.Array
) -> tuple[jax.Array | None, ...]:
    def by_products(*inputs: jax.Array) -> list[jax.Array]:
        *gradients, _ = jax.vjp(dot_product_attention, *inputs[:4])[1](inputs[4])
        return gradients

    functions = dict(tpu=gradients_in_kernel, default=by_products)
    return *jax.lax.platform_dependent(*arrays, gradient, **functions), None  # None: of the mask


_attend_on_platform.defvjp(
    lambda *arrays: (_attend_on_platform(*arrays), arrays), _gradients_on_platform
)


def dot_product_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    mask: Array | None = None,
    *,
    dropout: WeightsDropout | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Returns softmax(QKᵀ + bias)V: equation (1) without its scale.

    It is "dot" of Luong et al. (arXiv 1508.04025). docs/benchmarks.md shows what the scale is for.
    """
    logits = attention_logits(query, key)
    logits = logits if bias is None else logits + bias
    return attend(logits, value.swapaxes(1, 2), mask, dropout)


def attention_logits(query: jax.Array, key: jax.Array) -> jax.Array:
    """Returns QKᵀ in float32: [B, T, N, H] and [B, S, N, H] -> [B, N, T, S]."""
    query, key = query.swapaxes(1, 2), key.swapaxes(1, 2)  # heads first: no strides
    return jnp.einsum("BNTH,BNSH->BNTS", query, key, preferred_element_type=jnp.float32)


def attend(
    logits: jax.Array,
    value: jax.Array,
    mask: Array | None,
    dropout: WeightsDropout | None = None,
    softmax: Callable[[jax.Array], jax.Array] = jax.nn.softmax,
) -> jax.Array:
    """Returns softmax(logits)V: [B, N, T, S] float32 and [B, N, S, H] -> [B, T, N, H]."""
    weights = softmax(mask_logits(logits, mask)).astype(value.dtype)
    weights = weights if dropout is None else dropout(weights)
    return jnp.einsum("BNTS,BNSH->BNTH", weights, value).swapaxes(1, 2)


def mask_logits(logits: jax.Array, mask: Array | None) -> jax.Array:
    """Returns the logits with the least number where `mask` is False, or as they are for None."""
    return logits if mask is None else jnp.where(mask, logits, jnp.finfo(logits.dtype).min)


def fused_attention(
    query: jax.Array,
    key: jax.Array,
    value: jax.Array,
    *,
    mask: Array | None = None,
    dropout: WeightsDropout | None = None,
) -> jax.Array:
    """Computes equation (1) by `jax.nn.dot_product_attention`: one fused kernel where one exists.

    With bfloat16 on an NVIDIA GPU it is cuDNN's flash attention (Dao et al., arXiv 2205.14135),
    which never stores the weights of all pairs; else XLA's. Neither can drop weights: `dropout`
    raises ValueError.
    """
    refuse_dropout("fused", dropout)
    width, value_width = query.shape[-1], value.shape[-1]
    # The kernels take a single width: zeros change no product, and are cut off the values.
    axes, widest = ((0, 0), (0, 0), (0, 0)), max(width, value_width)
    query, key, value = (
        jnp.pad(x, (*axes, (0, widest - x.shape[-1]))) for x in (query, key, value)
    )
    implementation = "cudnn" if _cudnn_takes(query, key, mask) else "xla"
    if implementation == "cudnn" and mask is not None:
        mask = jnp.broadcast_to(mask, (*mask.shape[:2], query.shape[1], key.shape[1]))
    attended = jax.nn.dot_product_attention(
        query, key, value, mask=mask, scale=width**-0.5, implementation=implementation
    )
    return attended[..., :value_width]


def refuse_dropout(name: str, dropout: WeightsDropout | None) -> None:
    """Raises ValueError if there is dropout for a function that computes no weights."""
    if dropout is not None:
        raise ValueError(
            f"model.attention={name} has no weights to drop: set model.attention_dropout_rate=0, "
            "or model.attention=scaled_dot_product."
        )


def _cudnn_takes(query: jax.Array, key: jax.Array, mask: Array | None) -> bool:
    """Returns whether jax 0.10's cuDNN kernel accepts these; `jax.nn` never chooses it itself.

    The kernel turns a mask into a bias, and the gradient of a bias needs even lengths.
    """
    device, width = jax.devices()[0], query.shape[-1]
    return (
        "NVIDIA" in device.device_kind
        and float(device.compute_capability) >= 8
        and query.dtype in (jnp.bfloat16, jnp.float16)
        and width % 8 == 0
        and width <= CUDNN_WIDTH
        and (mask is None or query.shape[1] % 2 == key.shape[1] % 2 == 0)
    )
