"""Writes work directories with one checkpoint: of a run in bfloat16, or of parameters in memory."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from etils.epath import PathLike

from transformer.checkpoint.about import FILES, as_trained, describe_run, files_of
from transformer.checkpoint.checkpoints import Checkpoints, load_checkpoint
from transformer.checkpoint.restore import Run, check_shapes, smallest_batch
from transformer.checkpoint.train_state import Params, TrainState
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import Tokenizer, save_tokenizers
from transformer.files.storage import write_atomically
from transformer.parallel.devices import host_device
from transformer.workdir import WorkDir


def export(workdir: PathLike, folder: PathLike, checkpoint: str | int = "default") -> str:
    """Writes one checkpoint of `workdir` to `folder` in bfloat16; returns a sentence about it.

    Raises ValueError if `workdir` holds no such checkpoint or `folder` holds a run already.
    """
    source, target = WorkDir(workdir), _new_run(folder)
    config = source.load_config()
    loaded = load_checkpoint(source, config, checkpoint)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), loaded.params)
    target.open_for_training(config)
    for name, content in files_of(loaded.about).items():
        write_atomically(target / name, content)
    changes = {
        "model.dtype": "bfloat16",
        "decoding.average_checkpoints": 1,
        "training.lora_rank": 0,  # adapters are merged
    }
    config = as_trained(config, loaded.about, source.path).with_values(changes)
    write_checkpoint(target, config, params, loaded.step)
    return f"{loaded.name} of {source.path} in bfloat16"


def save_run(run: Run, workdir: PathLike, step: int = 0) -> None:
    """Writes a run that is in memory to a new work directory, for eval.py and `from_checkpoint`.

    >>> run = Run.in_memory(config, (tokenizer, tokenizer), params=params)
    >>> transformer.save_run(run, "runs/own_loop", step=300)

    step: of the checkpoint that holds the parameters. Raises ValueError if `workdir` holds a run
    already, or the parameters are not those of `run.model`.
    """
    target = _new_run(workdir)
    check_shapes(run.model, smallest_batch(run.config, run.labels), run.params)
    params = jax.device_put(run.params, host_device())  # as Orbax would copy arrays of numpy
    target.open_for_training(run.config)
    save_vocabularies(target, run.tokenizers, run.labels)
    write_checkpoint(target, run.config, params, step)


def _new_run(folder: PathLike) -> WorkDir:
    """Returns a work directory in which there is no run yet; raises ValueError if there is one."""
    target = WorkDir(folder)
    if target.has_run or target.checkpoints.exists():
        raise ValueError(f"{target.path} holds a run already, or a part of one; name a new folder.")
    return target


def write_checkpoint(target: WorkDir, config: Config, params: Params, step: int) -> None:
    """Writes the only checkpoint of a folder that holds its vocabularies, and then config.json."""
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
