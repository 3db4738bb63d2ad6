"""The paper's learning-rate schedule and Adam, as one optax chain (section 5.3)."""

import jax.numpy as jnp
import optax


def make_schedule(config, d_model):
    """lrate = d_model^-0.5 · min(step^-0.5, step · warmup_steps^-1.5), equation (3).

    `config.peak_learning_rate` scales it to another peak. The function takes optax's count, which
    is 0 at the first step: the paper's step is count + 1.
    """
    warmup = config.warmup_steps
    scale = d_model**-0.5
    if config.peak_learning_rate:
        scale = config.peak_learning_rate * warmup**0.5

    def schedule(count):
        step = jnp.asarray(count, jnp.float32) + 1
        return scale * jnp.minimum(step**-0.5, step * warmup**-1.5)

    return schedule


def make_optimizer(config, d_model):
    """Adam with the paper's β and ε, after clipping the gradient's norm if the config says so."""
    schedule = make_schedule(config, d_model)
    adam = optax.adam(schedule, b1=config.beta1, b2=config.beta2, eps=config.epsilon)
    if config.clip_norm:
        return optax.chain(optax.clip_by_global_norm(config.clip_norm), adam)
    return adam
