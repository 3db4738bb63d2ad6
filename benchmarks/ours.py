"""Contestant: this repository's training step, as `train.py` compiles it, on one device.

As in the paper: post-norm, no dropout on attention weights or within the feed-forward layer.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from workload import Workload

from transformer.config import Config
from transformer.data.rows.batch import Batch
from transformer.data.rows.ragged import Ragged
from transformer.parallel.mapping import make_parallel
from transformer.training.startup_summary import make_step_without_data


def make_step(
    workload: Workload, settings: dict[str, Any], row_length: int = 0
) -> Callable[[], jax.Array]:
    """Returns a function that does a training step and returns its loss without waiting for it.

    settings: further ones of our Config. row_length: of rows that hold several sentences each, as
    `train.py` packs them; 0: a sentence per row.
    """
    config = make_config(workload, settings)
    train_step = make_step_without_data(config, make_parallel(config, jax.devices()[:1]))
    state = train_step.init_state()
    batch = train_step.make_batch([make_batch(workload, row_length)], 0)

    def step() -> jax.Array:
        nonlocal state
        state, sums = train_step(state, batch)
        return sums["loss"]

    return step


def make_config(workload: Workload, settings: dict[str, Any]) -> Config:
    """Returns the configuration of a workload."""
    names = "d_model", "d_ff", "num_heads", "num_layers", "dropout_rate", "dtype"
    chosen = {f"model.{name}": getattr(workload, name) for name in names}
    chosen["tokenizer.vocab_size"] = workload.vocab_size
    chosen["training.label_smoothing"] = workload.label_smoothing
    return Config().with_values(chosen | settings).validate()


def make_batch(workload: Workload, row_length: int) -> Batch:
    """Returns the sentences, one per row or as many as fit rows of `row_length`."""
    inputs, targets = workload.ids()
    if not row_length:
        return Batch.from_arrays(inputs, targets)
    per_row = row_length // max(workload.source_length, workload.target_length)
    return Batch.from_pairs(
        (Ragged.from_lists(inputs.tolist()), Ragged.from_lists(targets.tolist())),
        np.arange(workload.num_sentences),
        np.full(workload.num_sentences // per_row, per_row),
        (row_length, row_length),
    )
