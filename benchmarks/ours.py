"""Contestant: the model, loss, optimizer and train step of this repository, jitted.

As in the paper: post-norm, no dropout on attention weights or within the feed-forward layer.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from workload import Workload

from transformer.config import ModelConfig, OptimizerConfig
from transformer.data.batch import Batch
from transformer.model.encoder_decoder import Transformer
from transformer.model.loss import make_loss_fn
from transformer.training import steps
from transformer.training.optimizer import make_optimizer


def make_step(
    workload: Workload, model: dict[str, Any], accumulate_steps: int = 1
) -> Callable[[], jax.Array]:
    """Returns a function that does a training step and returns its loss without waiting for it.

    model: more fields of ModelConfig. accumulate_steps: micro-batches of a step.
    """
    config = ModelConfig(
        d_model=workload.d_model,
        d_ff=workload.d_ff,
        num_heads=workload.num_heads,
        num_layers=workload.num_layers,
        dropout_rate=workload.dropout_rate,
        dtype=workload.dtype,
        **model,
    )
    network = Transformer(config, workload.vocab_size, workload.vocab_size)
    optimizer = make_optimizer(OptimizerConfig(), config.d_model)
    batch = jax.device_put(make_batch(*workload.ids()))
    state = jax.jit(lambda: steps.init_state(network, optimizer, batch, seed=0))()
    loss_fn = make_loss_fn(network, workload.label_smoothing)
    train_step = jax.jit(
        steps.make_train_step(loss_fn, optimizer, seed=0, accumulate_steps=accumulate_steps),
        donate_argnums=0 if workload.device == "gpu" else (),  # as `parallel.mapping` does
    )

    def step() -> jax.Array:
        nonlocal state
        state, sums = train_step(state, batch)
        return sums["loss"]

    return step


def make_batch(inputs: np.ndarray, targets: np.ndarray) -> Batch:
    """Makes a Batch of ids [B, S] and [B, T], a sentence per row."""
    return Batch.from_arrays(inputs, targets)
