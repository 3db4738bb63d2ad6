"""The paper's learning-rate schedule and Adam, as one optax chain (section 5.3)."""

import jax
import jax.numpy as jnp
import optax

LEAST = 0.1  # of the peak, where a cosine ends


def make_schedule(config, d_model):
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation (3).

    `config.peak_learning_rate` scales it to another peak; with `config.decay_steps` a cosine takes
    the place of the inverse root (Loshchilov & Hutter 2017). The function takes optax's count,
    which is 0 at the first step: the paper's step is count + 1.
    """
    warmup, decay_steps = config.warmup_steps, config.decay_steps
    scale = d_model**-0.5
    if config.peak_learning_rate:
        scale = config.peak_learning_rate * warmup**0.5

    def schedule(count):
        step = jnp.asarray(count, jnp.float32) + 1
        if not decay_steps:
            return scale * jnp.minimum(step**-0.5, step * warmup**-1.5)
        done = jnp.clip((step - warmup) / max(1, decay_steps - warmup), 0, 1)
        cosine = LEAST + (1 - LEAST) * (1 + jnp.cos(jnp.pi * done)) / 2
        return scale * warmup**-0.5 * jnp.minimum(step / warmup, cosine)

    return schedule


def make_optimizer(config, d_model):
    """Adam with the paper's β and ε; clipping and the decay of matrices if the config says so."""
    schedule = make_schedule(config, d_model)
    betas = dict(b1=config.beta1, b2=config.beta2, eps=config.epsilon)
    if config.weight_decay:
        decay = dict(weight_decay=config.weight_decay, mask=_matrices)
        adam = optax.adamw(schedule, **betas, **decay)
    else:
        adam = optax.adam(schedule, **betas)
    if config.clip_norm:
        return optax.chain(optax.clip_by_global_norm(config.clip_norm), adam)
    return adam


def _matrices(params):
    return jax.tree.map(lambda leaf: leaf.ndim > 1, params)
