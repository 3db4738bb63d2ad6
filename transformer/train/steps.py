"""The train and eval steps: pure functions of state and batch; of the task they know `loss_fn`."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

from transformer.checkpoint.train_state import TrainState
from transformer.train.optimizer import make_optimizer


def init_state(model, optimizer, batch, seed):
    """A fresh TrainState; `batch` gives shapes only."""
    rng = jax.random.PRNGKey(seed)
    params = model.init({"params": rng}, batch, deterministic=True)["params"]
    return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))


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


class TrainStep:
    """Makes states and takes them a step further. batch: one of the run's, for its shapes."""

    def __init__(self, config, parallel, model, loss_fn, batch):
        self.config, self.parallel, self.model = config, parallel, model
        self.loss_fn, self.example_batch = loss_fn, batch
        self._parts = config.training.accumulate_steps
        self.optimizer = make_optimizer(config.optimizer, config.model.d_model)
        self.abstract_state = parallel.abstract(self._init)
        make_step = partial(
            make_train_step,
            loss_fn,
            self.optimizer,
            config.training.seed,
            self._parts,
        )
        self._mapped = parallel.map_step(make_step, self.abstract_state)

    def _init(self):
        seed = self.config.training.seed
        return init_state(self.model, self.optimizer, self.example_batch, seed)

    def init_state(self):
        """A fresh state, placed."""
        return self.parallel.init(self._init)

    def put_batch(self, batch):
        """A batch of numpy arrays -> as the step takes it."""
        return self.parallel.put_batch(batch, self._parts)

    def __call__(self, state, batch):
        """(state, what `put_batch` gave) -> (the next state, sums); the old state is used up."""
        return self._mapped(state, batch)

    def lower(self):
        """The step in the compiler's language; nothing is computed and no device need be there."""
        batch = self.parallel.abstract_batch(self.example_batch, self._parts)
        return self._mapped.lower(self.abstract_state, batch)
