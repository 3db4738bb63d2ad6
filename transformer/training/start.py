"""The first state of a run, restored, initialised or copied from another run, and its files.

A run that is resumed must go on with the settings, the vocabularies and the text that its
checkpoint was trained on; a new one writes them into its work directory.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import jax
import numpy as np

from transformer.checkpoint.about import SETTINGS, changed_settings, describe_run
from transformer.checkpoint.checkpoints import Checkpoints, load_base
from transformer.checkpoint.train_state import Params, TrainState
from transformer.checkpoint.warm_start import warm_start
from transformer.config import Config
from transformer.console import phase, say
from transformer.parallel import hosts
from transformer.tasks.task import Task
from transformer.training.steps import TrainStep
from transformer.workdir import WorkDir

FLAG = "--accept_changed_text"  # of train.py, and without the dashes an argument of `train`


def first_state(
    config: Config, task: Task, train_step: TrainStep, *, accept_changed_text: bool
) -> tuple[Checkpoints, TrainState, dict[str, Any]]:
    """Returns (open checkpoints, the state to train on from, notes that its checkpoints get).

    Every host waits until the work directory holds what restoring needs. accept_changed_text: the
    user has said that the text was changed on purpose. Raises ValueError for a run that cannot go
    on, and if the hosts differ.
    """
    workdir, init_from = task.workdir, config.training.init_from
    hosts.check_same("the text that they read", lambda: _summary(task.data_contents()))
    checkpoints = Checkpoints(workdir.checkpoints, keep=config.training.keep_checkpoints)
    contents = task.training_contents()
    text = crc32(_summary(contents)) if contents else None
    state, said = None, ""
    resumes, is_saved = bool(checkpoints.steps()), workdir.has_run
    if resumes and not is_saved:
        raise ValueError(
            f"{workdir.path} holds checkpoints but no config.json, which says what they are of: "
            f"put it back, or name another --workdir."
        )
    if resumes:
        with phase("restoring the checkpoint"):
            state = checkpoints.restore(train_step.abstract_state)
        said = f"resuming at step {int(state.step):,}"
        about = checkpoints.about(int(state.step))
        _check_same_run(about, config, workdir)
        if about["text"] not in (None, text):
            changed = f"training text is not the one that step {about['step']:,} was trained on"
            if not accept_changed_text:
                raise ValueError(
                    f"The {changed} (data.corpus={config.data.corpus}): put it back, start a new "
                    f"run in another --workdir, or go on with the changed text with {FLAG} (in "
                    f"Python, accept_changed_text=True)."
                )
            say(f"the {changed}; going on with the changed text, as asked by {FLAG}")
            is_saved = False
    if workdir.writes and not is_saved:
        task.save(workdir.path)
    workdir.save_config(config)
    hosts.wait_for_all("the work directory")
    if not hosts.wait_until(lambda: workdir.has_run):
        raise ValueError(f"{workdir.path} is not shared by the hosts: name a folder that all see.")
    if state is None:
        state, said = _new_state(config, workdir, train_step)
    if config.training.lora_rank:
        base = load_base(workdir, "" if resumes else init_from)
        state = state.replace(frozen=_put_like(train_step.abstract_state.frozen, base))
    hosts.check_same("the checkpoint that they can read", said.encode)
    if said:
        say(said)
    return checkpoints, state, describe_run(workdir.path, config, text)


def _summary(contents: Sequence[Any]) -> bytes:
    """Returns arrays, as their checksums, and other objects as text."""
    parts = [
        crc32(np.ascontiguousarray(x).data) if isinstance(x, np.ndarray) else x for x in contents
    ]
    return repr(parts).encode()


def _check_same_run(about: Mapping[str, Any], config: Config, workdir: WorkDir) -> None:
    """Raises ValueError if the settings or files of a run are not those of a checkpoint.

    about: as `describe_run` returned it when that was saved.
    """
    for name, (before, after) in changed_settings(about, config).items():
        if not SETTINGS[name].resumable:
            raise ValueError(
                f"{workdir / 'config.json'} has {name}={after!r}, but the checkpoints were trained "
                f"with {before!r}: put back the former value."
            )
    files = describe_run(workdir.path, config)["files"]
    if changed := sorted(name for name, _ in about["files"].items() ^ files.items()):
        raise ValueError(
            f"{workdir / changed[0]} is not the file that the checkpoints were trained with: put "
            f"the former one back, or remove what was not there."
        )


def _new_state(config: Config, workdir: WorkDir, train_step: TrainStep) -> tuple[TrainState, str]:
    """Returns (a state of step 0, perhaps with another run's weights; what to say of these)."""
    rank, init_from = config.training.lora_rank, config.training.init_from
    with phase("initialising the parameters"):
        state = train_step.init_state()
    if not init_from:
        return state, ""
    if rank:
        return state, f"adapters of rank {rank} to {init_from}"
    params, note = warm_start(state.params, workdir, init_from)
    return state.with_params(params), note


def _put_like(like: Params, base: Params) -> Params:
    """Puts the parameters of a base on the devices; like: their shapes and shardings."""
    shapes = [jax.tree.map(lambda x: x.shape, params) for params in (like, base)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            "training.lora_rank adapts a model of the same shape and task as that of "
            "training.init_from; set --config.training.lora_rank=0 to train a model that differs."
        )
    return jax.tree.map(lambda x, y: jax.device_put(y.astype(x.dtype), x.sharding), like, base)
