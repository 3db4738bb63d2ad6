"""Writes one checkpoint of a run to a folder of its own, in bfloat16 and without optimizer."""

import jax
import jax.numpy as jnp
from etils.epath import PathLike

from transformer.checkpoint.about import FILES, as_trained, describe_run, files_of
from transformer.checkpoint.checkpoints import Checkpoints, load_checkpoint
from transformer.checkpoint.restore import Run
from transformer.checkpoint.train_state import TrainState
from transformer.data.tokenizers.files import save_tokenizers
from transformer.files.storage import write_atomically
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
    config = as_trained(config, loaded.about, source.path)
    for name, content in files_of(loaded.about).items():
        write_atomically(target / name, content)
    config.model.dtype, config.decoding.average_checkpoints = "bfloat16", 1
    config.training.lora_rank = 0  # adapters are merged
    checkpoints = Checkpoints(target.checkpoints, keep=1)
    state = TrainState(jnp.array(loaded.step), params, opt_state=())
    checkpoints.save(state, **describe_run(target.path, config))
    checkpoints.close()
    target.save_config(config)
    target.close()
    mib = sum(leaf.nbytes for leaf in jax.tree.leaves(params)) / 2**20
    return f"{loaded.name} of {source.path} in bfloat16, {mib:,.1f} MiB of parameters"


def save_vocabularies(run: Run, target: WorkDir) -> list[str]:
    """Writes the tokenizers and the names of the classes of a run; returns the files' names.

    Raises OSError if `target` is no folder.
    """
    if run.tokenizers:
        save_tokenizers(target.path, run.tokenizers[0], run.tokenizers[-1])
    if run.labels.names:
        run.labels.save(target.path)
    return sorted(file.name for file in target.path.iterdir() if file.stem in FILES)
