"""What a run begins with: a restored, fresh or borrowed state, and the scores of before."""

from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.train_state import TrainState
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
    if checkpoints.steps():
        with phase("restoring the checkpoint"):
            state = checkpoints.restore(train_step.abstract_state)
        note = f"resuming at step {int(state.step):,}"
    else:
        with phase("initialising the parameters"):
            state, note = train_step.init_state(), ""
        if init_from := config.training.init_from:
            state, note = warm_start(state, workdir, init_from)
    hosts.check_same("the checkpoint that they can read", note.encode)
    if note:
        say(note)
    return state


def scores_until(step: int, task: Task, workdir: WorkDir) -> dict[int, float]:
    """Returns the scores of the evaluations that were logged up to a step, by their steps."""
    return {
        record["step"]: task.selection_score(record)
        for record in workdir.read_metrics()
        if task.selection_key in record and record["step"] <= step
    }
