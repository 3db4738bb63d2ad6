"""Writes one checkpoint of a run to a folder of its own, in bfloat16 and without optimizer."""

import jax
import jax.numpy as jnp
from etils.epath import PathLike

from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.open_run import load_checkpoint
from transformer.checkpoint.run_identity import VOCABULARY_FILES, RunIdentity
from transformer.checkpoint.train_state import TrainState
from transformer.storage import write_atomically
from transformer.workdir import WorkDir


def export(workdir: PathLike, folder: PathLike, checkpoint: str | int = "default") -> str:
    """Writes one checkpoint of `workdir` to `folder`; returns a sentence that says what it wrote.

    Raises ValueError if `workdir` holds no such checkpoint or `folder` holds a run already.
    """
    source, target = WorkDir(workdir), WorkDir(folder)
    config = source.load_config()
    if target.has_run or target.checkpoints.exists():
        raise ValueError(f"{target.path} holds a run already, or a part of one; name a new folder.")
    loaded = load_checkpoint(source, config, checkpoint)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), loaded.params)
    target.open_for_training(config)
    copy_vocabularies(source, target)
    config.model.dtype, config.decoding.average_checkpoints = "bfloat16", 1
    config.training.lora_rank = 0  # adapters are merged
    identity = RunIdentity(target.path, config)
    checkpoints = Checkpoints(target.checkpoints, keep=1, run=identity)
    checkpoints.save(TrainState(jnp.array(loaded.step), params, opt_state=()))
    checkpoints.close()
    target.save_config(config)
    target.close()
    mib = sum(leaf.nbytes for leaf in jax.tree.leaves(params)) / 2**20
    return f"{loaded.name} of {source.path} in bfloat16, {mib:,.1f} MiB of parameters"


def copy_vocabularies(source: WorkDir, target: WorkDir) -> list[str]:
    """Copies the tokenizers and the names of the classes of a run; returns the names of the files.

    Raises OSError if `target` is no folder.
    """
    files = [file for file in source.path.iterdir() if file.stem in VOCABULARY_FILES]
    for file in files:
        write_atomically(target / file.name, file.read_bytes())
    return sorted(file.name for file in files)
