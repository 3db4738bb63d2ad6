"""What a run begins with: a restored, fresh or borrowed state, and the scores of before."""

import math
from collections.abc import Mapping
from typing import Any

import jax

from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.open_run import choose_base, load_base
from transformer.checkpoint.train_state import Params, TrainState
from transformer.checkpoint.warm_start import warm_start
from transformer.config import Config
from transformer.console import phase, say
from transformer.parallel import hosts
from transformer.tasks.task import Task
from transformer.training.steps import TrainStep
from transformer.workdir import WorkDir


def restore_or_init(
    config: Config, workdir: WorkDir, checkpoints: Checkpoints, train_step: TrainStep
) -> TrainState:
    """Returns the newest good checkpoint, or a fresh state, or one with another run's weights."""
    note, training, resumes = "", config.training, bool(checkpoints.steps())
    if resumes:
        with phase("restoring the checkpoint"):
            state = checkpoints.restore(train_step.abstract_state)
        note = f"resuming at step {int(state.step):,}"
    else:
        with phase("initialising the parameters"):
            state = train_step.init_state()
        if training.init_from and not training.lora_rank:
            params, note = warm_start(state.params, workdir, training.init_from)
            state = state.with_params(params)
    if training.lora_rank:
        base = load_base(workdir) if resumes else choose_base(workdir, training.init_from)
        state = state.replace(frozen=_put_like(train_step.abstract_state.frozen, base))
        note = note or f"adapters of rank {training.lora_rank} to {training.init_from}"
    hosts.check_same("the checkpoint that they can read", note.encode)
    if note:
        say(note)
    return state


def _put_like(like: Params, base: Params) -> Params:
    """Puts the parameters of a base on the devices; like: their shapes and shardings."""

    def shapes(params: Params) -> Any:
        return jax.tree.map(lambda x: x.shape, params)

    if shapes(like) != shapes(base):
        raise ValueError(
            "training.lora_rank adapts a model of the same shape and task as that of "
            "training.init_from; set --config.training.lora_rank=0 to train a model that differs."
        )
    return jax.tree.map(lambda x, y: jax.device_put(y.astype(x.dtype), x.sharding), like, base)


def score_and_loss(task: Task, metrics: Mapping[str, float]) -> tuple[float, float]:
    """Returns the score and the loss of a validation, which is infinite where there is none."""
    return task.selection_score(metrics), metrics.get("validation_loss", math.inf)


def scores_until(step: int, task: Task, workdir: WorkDir) -> dict[int, tuple[float, float]]:
    """Returns score and loss of the validations that were logged up to a step, by their steps."""
    return {
        record["step"]: score_and_loss(task, record)
        for record in workdir.read_metrics()
        if task.selection_key in record and record["step"] <= step
    }
