"""The training step: a pure function of state and batch, and the same compiled for the devices.

All that it knows of a task is `loss_fn(params, batch, rng) -> (loss sum, sums)`. `sums` holds at
least "loss" and "tokens", the number of targets, each summed over the batch and not yet divided.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn

from transformer.checkpoint.restore import cast_matrices
from transformer.checkpoint.train_state import AdapterState, Params, TrainState, init_adapters
from transformer.config import Config
from transformer.parallel.mapping import Parallel
from transformer.training.optimizer import make_optimizer

Batch = Any  # a pytree of arrays [B, …]
Sums = dict[str, jax.Array]
LossFn = Callable[[Params, Batch, jax.Array], tuple[jax.Array, Sums]]
NUM_AHEAD = 2  # batches that are made before the devices need them


def init_state(
    model: nn.Module,
    optimizer: optax.GradientTransformation,
    batch: Batch,
    seed: int,
    lora_rank: int = 0,
) -> TrainState:
    """Returns a fresh TrainState of step 0; `batch` gives shapes only.

    lora_rank: rank of the adapters that are trained; 0: all parameters are trained.
    """
    step, rng = jnp.zeros((), jnp.int32), jax.random.PRNGKey(seed)
    params = model.init({"params": rng}, batch, deterministic=True)["params"]
    if not lora_rank:
        return TrainState(step, params, optimizer.init(params))
    adapters = init_adapters(params, lora_rank, rng)
    return AdapterState(step, adapters, optimizer.init(adapters), frozen=params)


def make_train_step(
    loss_fn: LossFn,
    optimizer: optax.GradientTransformation,
    seed: int,
    accumulate_steps: int = 1,
    over_replicas: Callable[[Any], Any] = lambda compute: compute,
) -> Callable[[TrainState, Batch], tuple[TrainState, Sums]]:
    """Returns train_step(state, batch) -> (state, sums): one update of the optimizer.

    The gradient is that of the summed loss, divided once by the number of targets, so that it does
    not depend on how a batch is split: into `accumulate_steps` parts here, or over devices.
    over_replicas: that of `Parallel`, where several devices share the rows of a batch.

    An update whose loss or gradient is not finite is skipped: the parameters stay, the step
    counts, and sums are 0 but for "skipped", which is 1.
    """

    def train_step(state: TrainState, batch: Batch) -> tuple[TrainState, Sums]:
        def compute(params: Params, frozen: Params, batch: Batch, rng: jax.Array) -> Any:
            def loss_of(params: Params, *args: Any) -> tuple[jax.Array, Sums]:
                return loss_fn(state.with_weights(params, frozen).model_params, *args)

            gradient_fn = jax.grad(loss_of, has_aux=True)
            return _accumulate(gradient_fn, params, batch, rng, accumulate_steps)

        rng = jax.random.fold_in(jax.random.PRNGKey(seed), state.step)
        gradients, sums = over_replicas(compute)(state.params, state.frozen, batch, rng)
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


def _accumulate(
    gradient_fn: Callable[[Params, Batch, jax.Array], tuple[Params, Sums]],
    params: Params,
    batch: Batch,
    rng: jax.Array,
    num_parts: int,
) -> tuple[Params, Sums]:
    """Sums gradients and metrics over parts of the batch, computed one after the other.

    Every num_parts-th row goes to the same part, so that the rows of a device stay on it: of rows
    0 to 7, two on each of four devices, the parts are 0 2 4 6 and 1 3 5 7.
    """

    def add_part(total: Any, part: tuple[Batch, jax.Array]) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, in_float32(*part)), None

    def in_float32(batch: Batch, rng: jax.Array) -> tuple[Params, Sums]:
        gradients, sums = gradient_fn(params, batch, rng)
        return jax.tree.map(lambda g: g.astype(jnp.float32), gradients), sums

    if num_parts == 1:
        return in_float32(batch, rng)

    rows = jax.tree.map(lambda x: x.reshape(-1, num_parts, *x.shape[1:]).swapaxes(0, 1), batch)
    parts = rows, jax.random.split(rng, num_parts)
    shapes = jax.eval_shape(in_float32, *jax.tree.map(lambda x: x[0], parts))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.lax.scan(add_part, zeros, parts)[0]


class TrainStep:
    """`make_train_step`, compiled for the devices of a run: train_step(state, batch).

    batch: an example, for its shapes.
    """

    def __init__(
        self, config: Config, parallel: Parallel, model: nn.Module, loss_fn: LossFn, batch: Batch
    ) -> None:
        self.parallel, self.model, self.loss_fn = parallel, model, loss_fn
        self.example_batch = batch
        self.take_schedule(config)
        training = config.training
        seed, num_parts = training.seed, training.accumulate_steps
        self._num_parts, self.abstract_state = num_parts, parallel.abstract(self._init_state)

        def make_step(over_replicas: Callable[..., Any]) -> Callable[..., Any]:
            # Of a table many rows of gradients are added up: it stays in float32.
            if not training.lora_rank:
                cast = partial(cast_matrices, config=config, in_float32=("table",))
                over_replicas = partial(over_replicas, cast=cast)
            return make_train_step(loss_fn, self.optimizer, seed, num_parts, over_replicas)

        self._mapped = parallel.map_step(make_step, self.abstract_state)

    def take_schedule(self, config: Config) -> None:
        """Makes states from now on that are trained by another schedule, in the same program."""
        self.optimizer = make_optimizer(config.optimizer, config.model.d_model)
        training = config.training
        options = self.optimizer, self.example_batch, training.seed, training.lora_rank
        self._init_state = partial(init_state, self.model, *options)

    def init_state(self) -> TrainState:
        """Returns a fresh state, on the devices."""
        return self.parallel.init(self._init_state)

    def make_batch(self, batches: Any, step: int) -> Batch:
        """Returns batches[step] as the step takes it: padded and on the devices.

        Of batches that have `part(step, start, stop)`, the same batch whose rows before `start` and
        from `stop` on may be empty, this host makes its own rows alone.
        """
        parallel, num_parts = self.parallel, self._num_parts
        if not hasattr(batches, "part"):
            return parallel.put_batch(batches[step], num_parts)
        num_rows = parallel.padded_num_rows(batches.rows_per_batch, num_parts)
        rows = batches.part(step, *parallel.rows_of_host(num_rows))
        return parallel.put_batch(rows, num_parts)

    def __call__(self, state: TrainState, batch: Batch) -> tuple[TrainState, Sums]:
        """Returns (next state, sums) for a batch of `make_batch`; the old state is used up."""
        return self._mapped(state, batch)

    def lower(self) -> jax.stages.Lowered:
        """Lowers the step for the compiler; computes nothing and needs none of the devices."""
        batch = self.parallel.abstract_batch(self.example_batch, self._num_parts)
        return self._mapped.lower(self.abstract_state, batch)

    def memory(self) -> tuple[int, int]:
        """Returns the bytes on each device of (state and batch, the compiled step's work space)."""
        memory = self.lower().compile().memory_analysis()
        assert memory  # every backend that we compile for knows it
        results = memory.output_size_in_bytes - memory.alias_size_in_bytes
        return memory.argument_size_in_bytes, memory.temp_size_in_bytes + results


def prefetch(make_batch: Callable[[int], Batch], steps: Iterable[int]) -> Generator[Batch]:
    """Yields make_batch(step) for each of `steps`, in order, from a thread two of them ahead.

    An exception of `make_batch` is raised where its batch would have been yielded.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    pending: deque[Future[Batch]] = deque()
    try:
        for step in steps:
            pending.append(pool.submit(make_batch, step))
            if len(pending) > NUM_AHEAD:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
