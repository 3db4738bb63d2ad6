"""The train and eval steps: pure functions of state and batch; of the task they know `loss_fn`."""

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import struct

from transformer.model.loss import cross_entropy


@struct.dataclass
class TrainState:
    """All that a run carries from step to step, and all that a checkpoint holds."""

    step: jax.Array  # number of updates made
    params: Any
    opt_state: Any


def init_state(model, optimizer, batch, seed):
    """A fresh TrainState; `batch` gives shapes only."""
    rng = jax.random.PRNGKey(seed)
    params = model.init({"params": rng}, batch, deterministic=True)["params"]
    return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))


def make_loss_fn(model, label_smoothing):
    """loss_fn(params, batch, rng) -> (loss sum, sums); rng=None evaluates without dropout.

    sums: {"loss", "nll", "tokens"}, each a sum over the batch's real target tokens.
    """

    def loss_fn(params, batch, rng):
        rngs = None if rng is None else {"dropout": rng}
        logits = model.apply({"params": params}, batch, deterministic=rng is None, rngs=rngs)
        loss, nll, tokens = cross_entropy(logits, batch.targets, batch.weights, label_smoothing)
        return loss, {"loss": loss, "nll": nll, "tokens": tokens}

    return loss_fn


def make_train_step(loss_fn, optimizer, seed, accumulate_steps=1, axis_name=None):
    """train_step(state, batch) -> (state, sums): one update of the optimizer.

    The gradient is that of the summed loss, divided once by the number of tokens, so that it does
    not depend on how a batch is split: into `accumulate_steps` parts here, or over devices.
    axis_name: the axis of `jax.pmap` to sum over; None where the compiler sees the whole batch.

    An update whose loss or gradient is not finite is left out: the parameters stay, the step
    counts, and sums are 0 but for "skipped", which is 1.
    """
    gradient_fn = jax.grad(loss_fn, has_aux=True)

    def train_step(state, batch):
        rng = jax.random.fold_in(jax.random.PRNGKey(seed), state.step)
        if axis_name:
            rng = jax.random.fold_in(rng, jax.lax.axis_index(axis_name))
        gradients, sums = _accumulate(gradient_fn, state.params, batch, rng, accumulate_steps)
        if axis_name:
            gradients, sums = jax.lax.psum((gradients, sums), axis_name)
        gradients = jax.tree.map(lambda g: g / jnp.maximum(sums["tokens"], 1), gradients)
        sums["gradient_norm"] = optax.tree.norm(gradients)
        is_finite = jnp.isfinite(sums["loss"]) & jnp.isfinite(sums["gradient_norm"])
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        updated = state.replace(
            params=optax.apply_updates(state.params, updates), opt_state=opt_state
        )
        kept = jax.tree.map(partial(jnp.where, is_finite), updated, state)
        sums = {name: jnp.where(is_finite, value, 0) for name, value in sums.items()}
        return kept.replace(step=state.step + 1), sums | {"skipped": 1 - is_finite.astype(int)}

    return train_step


def _accumulate(gradient_fn, params, batch, rng, num_parts):
    """Sums gradients and metrics over parts of the batch, worked off one after the other."""
    if num_parts == 1:
        return gradient_fn(params, batch, rng)

    def add_part(total, part):
        part_batch, part_rng = part
        return jax.tree.map(jnp.add, total, gradient_fn(params, part_batch, part_rng)), None

    # Every num_parts-th row goes to one part, so that the rows of a device stay on it.
    split = lambda x: x.reshape(-1, num_parts, *x.shape[1:]).swapaxes(0, 1)  # noqa: E731
    parts = jax.tree.map(split, batch), jax.random.split(rng, num_parts)
    first = jax.tree.map(lambda x: x[0], parts)
    zeros = jax.tree.map(
        lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(gradient_fn, params, *first)
    )
    return jax.lax.scan(add_part, zeros, parts)[0]


def make_eval_step(loss_fn, axis_name=None):
    """eval_step(params, batch) -> sums, without dropout; axis_name as for `make_train_step`."""

    def eval_step(params, batch):
        sums = loss_fn(params, batch, None)[1]
        return jax.lax.psum(sums, axis_name) if axis_name else sums

    return eval_step


def sums_over(batches, evaluate):
    """What evaluate(batch) sums, over the first `batches_per_epoch` of batches: {name: float}."""
    sums = Counter()
    for index in range(batches.batches_per_epoch):
        found = jax.device_get(evaluate(batches[index]))
        sums.update({name: float(value) for name, value in found.items()})
    return sums
