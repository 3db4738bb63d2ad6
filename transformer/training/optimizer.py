"""The paper's learning-rate schedule and Adam, as one optax transformation (section 5.3)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from transformer.config import OptimizerConfig

FINAL_SHARE = 0.1  # of the peak rate, where a cosine decay ends


def make_schedule(
    config: OptimizerConfig, d_model: int
) -> Callable[[jax.typing.ArrayLike], jax.Array]:
    """Returns lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation (3).

    `config.peak_learning_rate` scales it to another peak; with `config.decay_steps` a cosine
    (Loshchilov & Hutter 2017) replaces the inverse square root. The schedule takes optax's count,
    which is 0 at the first step: the paper's step is count + 1.
    """
    warmup, decay_steps = config.warmup_steps, config.decay_steps
    scale = d_model**-0.5
    if config.peak_learning_rate:
        scale = config.peak_learning_rate * warmup**0.5

    def schedule(count: jax.typing.ArrayLike) -> jax.Array:
        step = jnp.asarray(count, jnp.float32) + 1
        if not decay_steps:
            return scale * jnp.minimum(step**-0.5, step * warmup**-1.5)
        decayed = jnp.clip((step - warmup) / max(1, decay_steps - warmup), 0, 1)
        cosine = FINAL_SHARE + (1 - FINAL_SHARE) * (1 + jnp.cos(jnp.pi * decayed)) / 2
        return scale * warmup**-0.5 * jnp.minimum(step / warmup, cosine)

    return schedule


def make_optimizer(config: OptimizerConfig, d_model: int) -> optax.GradientTransformation:
    """Returns Adam with the paper's β and ε; clipping and weight decay if the config sets them."""
    schedule = make_schedule(config, d_model)
    betas = dict(b1=config.beta1, b2=config.beta2, eps=config.epsilon)
    if config.weight_decay:
        adam = optax.adamw(schedule, **betas, weight_decay=config.weight_decay, mask=_is_matrix)
    else:
        adam = optax.adam(schedule, **betas)
    if config.clip_norm:
        return optax.chain(optax.clip_by_global_norm(config.clip_norm), adam)
    return adam


def _is_matrix(params: Any) -> Any:
    """Returns a tree of booleans: True for the parameters that decay, not for biases and norms."""
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)
