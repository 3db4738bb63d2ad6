"""Writes one checkpoint of a run to a folder of its own, in bfloat16."""

import re

import jax
import jax.numpy as jnp

from transformer.checkpoint.checkpoints import Checkpoints, open_for_reading
from transformer.checkpoint.train_state import TrainState
from transformer.storage import write_atomically
from transformer.workdir import WorkDir

BESIDES = {"tokenizer", "source_tokenizer", "target_tokenizer", "classes"}  # of what a run knows


def export(workdir, folder, checkpoint="default"):
    """Writes one checkpoint of `workdir` to `folder`; returns a sentence that says what was done.

    ValueError if `workdir` holds no such checkpoint or `folder` a run.
    """
    source, target = WorkDir(workdir), WorkDir(folder)
    config = source.load_config()
    if target.has_run:
        raise ValueError(f"{target.path} holds a run already; name a new folder.")
    found = open_for_reading(source.path, config)
    name, params = found.load(checkpoint, config.decoding.average_checkpoints)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), params)
    step = int(re.findall(r"\d+", name)[-1])  # of a mean, its newest
    target.open_for_training(config)
    checkpoints = Checkpoints(target.checkpoints)
    checkpoints.save(TrainState(jnp.array(step), params, opt_state=()))
    checkpoints.close()
    for file in source.path.iterdir():
        if file.stem in BESIDES:
            write_atomically(target / file.name, file.read_bytes())
    config.model.dtype, config.decoding.average_checkpoints = "bfloat16", 1
    target.save_config(config)
    mib = sum(leaf.nbytes for leaf in jax.tree.leaves(params)) / 2**20
    return f"{target.path}: {name} of {source.path} in bfloat16, {mib:,.1f} MiB of parameters"
