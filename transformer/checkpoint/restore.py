"""A work directory -> all that an object needs which computes with the parameters of a run."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.config import Config
from transformer.workdir import WorkDir


class Restored(NamedTuple):
    """workdir: where it lies; checkpoint, step, num_averaged: as those of `checkpoints.Loaded`."""

    workdir: WorkDir
    config: Config
    checkpoint: str
    step: int
    num_averaged: int
    params: Any


def restore(path, checkpoint="default", *, tasks, dtype=None, batch_size=None):
    """Reads a work directory or an export, local or gs://, whatever wrote it.

    checkpoint: "last", "best", a step, "average:N" (the mean of the last N), or "default": the mean
    of `decoding.average_checkpoints` if that is above 1, else the best, else the last. tasks: which
    ones the run may be of. dtype and batch_size in place of the configuration's.
    """
    workdir = WorkDir(path)
    config = workdir.load_config()
    if config.task not in tasks:
        raise ValueError(
            f"{workdir.path} holds a run of {config.task}, not of {' or '.join(tasks)}; "
            f"Translator, Classifier and LanguageModel open runs of their own each."
        )
    if dtype is not None:
        config.model.dtype = dtype if isinstance(dtype, str) else jnp.dtype(dtype).name
    if batch_size is not None:
        config.decoding.batch_size = batch_size
    config.validate()
    checkpoints = open_for_reading(workdir.path, config)
    return Restored(
        workdir, config, *checkpoints.load(checkpoint, config.decoding.average_checkpoints)
    )


def put_restored(owner, restored, batch):
    """Gives an object what was restored, if it fits its `model`; batch: one, for the shapes."""
    check_shapes(owner.model, batch, restored.params)
    owner.params, owner.checkpoint = restored.params, restored.checkpoint
    owner.step, owner.num_averaged = restored.step, restored.num_averaged
    return owner


def cast_matrices(params, config):
    """In the number format of the computation: a matrix is only ever used in that."""
    dtype = jnp.dtype(config.model.dtype)
    return jax.tree.map(lambda a: a.astype(dtype) if a.ndim > 1 else a, params)


def check_shapes(model, batch, params):
    """Refuses parameters of another model or vocabulary than config and tokenizer say."""
    init = partial(model.init, deterministic=True)
    expected = jax.eval_shape(init, jax.random.PRNGKey(0), batch)["params"]
    for (path, want), got in zip(
        jax.tree_util.tree_leaves_with_path(expected), jax.tree.leaves(params), strict=False
    ):
        if want.shape != got.shape:
            raise ValueError(
                f"The checkpoint does not fit config.json and the tokenizer beside it: "
                f"{jax.tree_util.keystr(path)} must be {want.shape}, but is {got.shape}."
            )
    if jax.tree.structure(expected) != jax.tree.structure(params):
        raise ValueError("The checkpoint holds other layers than config.json says.")
