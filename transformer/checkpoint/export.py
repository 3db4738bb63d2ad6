"""Writes work directories with one checkpoint: of a run in bfloat16, or of parameters in memory."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from etils.epath import PathLike

from transformer.checkpoint.about import FILES, describe_run
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.restore import restore
from transformer.checkpoint.train_state import Params, TrainState
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import Tokenizer, save_tokenizers
from transformer.workdir import WorkDir


def export(workdir: PathLike, folder: PathLike, checkpoint: str | int = "default") -> str:
    """Writes one checkpoint of `workdir` to `folder` in bfloat16; returns a sentence about it.

    Raises ValueError if `workdir` holds no such checkpoint or `folder` holds a run already.
    """
    target = WorkDir(folder)
    if target.has_run or target.checkpoints.exists():
        raise ValueError(f"{target.path} holds a run already, or a part of one; name a new folder.")
    run = restore(workdir, checkpoint)
    changes = {
        "model.dtype": "bfloat16",
        "decoding.average_checkpoints": 1,
        "training.lora_rank": 0,  # adapters are merged
    }
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), run.params)
    write_run(
        target, run.config.with_values(changes), params, run.step or 0, run.tokenizers, run.labels
    )
    return f"{run.checkpoint} of {run.workdir.path} in bfloat16"


def write_run(
    target: WorkDir,
    config: Config,
    params: Params,
    step: int,
    tokenizers: Sequence[Tokenizer],
    labels: Labels,
) -> None:
    """Writes a work directory with one checkpoint, and config.json last."""
    target.open_for_training(config)
    save_vocabularies(target, tokenizers, labels)
    checkpoints = Checkpoints(target.checkpoints, keep=1)
    state = TrainState(jnp.array(step), params, opt_state=())
    checkpoints.save(state, **describe_run(target.path, config))
    checkpoints.close()
    target.save_config(config)
    target.close()


def save_vocabularies(
    target: WorkDir, tokenizers: Sequence[Tokenizer], labels: Labels
) -> list[str]:
    """Writes tokenizers and the names of classes; returns the files' names.

    Raises OSError if `target` is no folder.
    """
    if tokenizers:
        save_tokenizers(target.path, tokenizers[0], tokenizers[-1])
    if labels.names:
        labels.save(target.path)
    return sorted(file.name for file in target.path.iterdir() if file.stem in FILES)
