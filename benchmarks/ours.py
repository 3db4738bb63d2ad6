"""Contestant: the model, loss, optimizer and train step of this repository, jitted.

The paper's: post-norm, no dropout on attention weights or within the feed-forward layer.
"""

import jax

from transformer.config import ModelConfig, OptimizerConfig
from transformer.data.batch import Batch
from transformer.model.encoder_decoder import Transformer
from transformer.model.loss import make_loss_fn
from transformer.train import steps
from transformer.train.optimizer import make_optimizer


def make_step(workload, model, accumulate_steps=1):
    """step() -> the loss on its way; `model` holds fields of ModelConfig to set besides.

    accumulate_steps: the batch is worked off in so many parts, in one update.
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
        donate_argnums=0 if workload.device == "gpu" else (),  # as `parallel` does
    )

    def step():
        nonlocal state
        state, sums = train_step(state, batch)
        return sums["loss"]

    return step


def make_batch(inputs, targets):
    """One sentence a row -> a Batch."""
    return Batch.from_arrays(inputs, targets)
