"""Training from Python: a run from its work directory and configuration to its test scores."""

import math
import shlex
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
from etils import epath
from etils.epath import PathLike

from transformer.config import Config
from transformer.console import (
    format_seconds,
    keeping_log,
    phase,
    quantity,
    say,
    showing_phases,
    silence,
)
from transformer.exit_codes import DONE, INTERRUPTED, RESUMABLE
from transformer.parallel import devices, hosts
from transformer.parallel.stopping import Interruption, Stopping
from transformer.tasks.task import Task
from transformer.training.automatic import make_trainer
from transformer.training.automatic_rules import Choices
from transformer.training.profile import Profile
from transformer.training.progress import OnReport
from transformer.training.startup_summary import summary_lines
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir

NEXT = """
next:
  python eval.py --workdir={}   (or transformer-eval)
  python eval.py --help"""


@dataclass(frozen=True)
class TrainingResult:
    """What training left in a work directory.

    step: that of the newest checkpoint; 0 if there is none.
    scores: those of the test split by name, as "bleu"; empty unless the run came to its end.
    exit_code: what the train command returns, a constant of `transformer.exit_codes`.
    """

    workdir: epath.Path
    step: int
    exit_code: int
    scores: dict[str, float]

    @property
    def is_finished(self) -> bool:
        """Whether the run came to its end and was not stopped before."""
        return self.exit_code == DONE

    def read_metrics(self) -> list[dict[str, Any]]:
        """Returns the records of metrics.jsonl: the training reports and the validations."""
        return WorkDir(self.workdir).read_metrics()

    def __repr__(self) -> str:
        """As "TrainingResult(runs/x, finished at step 600: bleu 98.12, chrf 99.01)"."""
        ended = "finished" if self.is_finished else f"stopped with exit code {self.exit_code}"
        scores = ", ".join(f"{name} {value:.2f}" for name, value in self.scores.items())
        facts = f"{self.workdir}, {ended} at step {self.step:,}"
        return f"TrainingResult({facts}: {scores})" if scores else f"TrainingResult({facts})"


def train(
    config: Config,
    workdir: PathLike,
    *,
    on_report: OnReport | None = None,
    task_type: type[Task] | None = None,
    verbose: bool = True,
    profile: str = "",
    accept_changed_text: bool = False,
) -> TrainingResult:
    """Trains a run to its end and scores its test split; the same call resumes a stopped run.

    >>> result = transformer.train(config, "runs/mine")
    >>> result.scores["bleu"]

    Once the text is read, SIGINT (interrupting a notebook), SIGTERM and SIGHUP stop the run and
    save it; a second SIGINT raises KeyboardInterrupt. Off the main thread signals are left alone.

    Args:
      workdir: a folder, local or gs://, which is made if need be. A run that it holds is resumed.
      on_report: called with (step, metrics) for each record of metrics.jsonl, on the first host;
        what it raises ends the run.
      task_type: the kind of task to train; None: the one that `config.task` names.
      verbose: whether to print on standard error what the train command prints.
      profile: "STEP:COUNT" traces the COUNT steps after that one with JAX's profiler, into the
        folder `profile` of the work directory.
      accept_changed_text: whether a run may go on although its training text has changed.

    Raises ValueError, in one sentence, for settings or files that cannot be used, a run with other
    settings in `workdir`, or another process that trains there.
    """
    if not isinstance(config, Config):
        raise ValueError(f"train takes a transformer.Config, not a {type(config).__name__}.")
    start = time.monotonic()
    with showing_phases() if verbose else silence():
        devices.check_accelerator()
        folder = WorkDir(workdir, writes=jax.process_index() == 0)
        config = folder.with_choices(config.validate())
        if _is_finished(folder, config):
            return _result(folder, folder.read_metrics()[-1]["step"], DONE)
        training = config.training
        trace = Profile(profile, folder, training.num_train_steps) if profile else None
        stopping = Stopping(training.patience)
        try:
            folder.open_for_training(config)
            with keeping_log(folder.append_log, shlex.join(sys.orig_argv)):
                trainer, choices = make_trainer(config, folder, stopping, task_type, on_report)
                with stopping.noting_signals():
                    result = _train(trainer, choices, trace, accept_changed_text)
                    if result.exit_code in (INTERRUPTED, RESUMABLE):
                        say(f"stopped at step {result.step:,} and saved; the same command goes on")
                    say(f"all of it took {format_seconds(time.monotonic() - start)}")
        finally:
            folder.close()
    return result


def _is_finished(workdir: WorkDir, config: Config) -> bool:
    """Whether the run has come to its end, which is said; raises ValueError if the hosts differ."""
    finished = workdir.is_finished(config)
    seen = f"{workdir.has_run} {finished} {config.to_json()}"
    hosts.check_same("configuration or in what is in the work directory", seen.encode)
    if finished:
        say(
            f"{workdir.path} is already finished; its scores are in {workdir / 'results'}. Raise "
            f"--config.training.num_train_steps to train further, or evaluate it: "
            f"eval.py --workdir={workdir.path}"
        )
    return finished


def _train(
    trainer: Trainer, choices: Choices, profile: Profile | None, accept_changed_text: bool
) -> TrainingResult:
    """Trains a run to its end, or until a signal stops it."""
    workdir, stopping = trainer.workdir, trainer.stopping
    task = trainer.task
    lines = summary_lines(trainer.config, trainer.train_step, task.cost_per_step, task)
    say("\n".join(lines + choices.lines()))
    code = trainer.run(profile, accept_changed_text=accept_changed_text)
    if code == DONE:
        code = stopping.exit_code
        with suppress(Interruption), hosts.interruptible(stopping):
            conclude_run(trainer)
            code = DONE
    step = max(trainer.checkpoints.steps(), default=0)
    trainer.close()
    if code == DONE:
        hosts.wait_until(lambda: workdir.is_finished(trainer.config))  # the first host writes that
    return _result(workdir, step, code)


def conclude_run(trainer: Trainer) -> None:
    """Scores the test set, draws the curves, and marks the run as finished."""
    workdir, step = trainer.workdir, trainer.step
    num_steps = trainer.config.training.num_train_steps
    if step < num_steps:
        since = quantity(trainer.stopping.num_worse, "evaluation")
        say(f"stopped at step {step:,}: no better {trainer.task.selection_key} since {since}")
    with phase("scoring the test set"):
        result = trainer.task.score_test_split()
    if not workdir.writes:
        return
    scores: dict[str, float] = {}
    if result:
        file = result.save(workdir, trainer.config.data.test_split)
        report, curves = file.with_name("report.html"), workdir / "curves.png"
        drawn = f"curves: {curves}   " if curves.exists() else ""
        say("\n".join(["", *result.samples, f"test set, checkpoint {result.checkpoint}:"]))
        say("\n".join(f"  {line}" for line in result.lines()))
        say(f"{drawn}scores: {report if report.exists() else file}")
        values = {f"test_{name}": score.value for name, score in result.scores.items()}
        scores = {k: v for k, v in values.items() if math.isfinite(v)}  # JSON knows no other
    # `WorkDir.is_finished` takes this last line of metrics.jsonl as the mark of a finished run.
    trainer.progress.log(step, scores | {"num_train_steps": num_steps})
    say(NEXT.format(shlex.quote(str(workdir.path))))


def _result(workdir: WorkDir, step: int, exit_code: int) -> TrainingResult:
    """Returns the result of a run; the last record of one that has ended holds its scores."""
    last = workdir.read_metrics()[-1] if exit_code == DONE else {}
    scores = {k.removeprefix("test_"): v for k, v in last.items() if k.startswith("test_")}
    return TrainingResult(workdir.path, step, exit_code, scores)
