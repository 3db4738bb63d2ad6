"""The train command: opens or resumes a run, trains it to its end, and scores its test set."""

import math
import time
from functools import partial

import jax

from transformer.cli import compile_cache, startup_summary
from transformer.cli.hosts import HostFlags, connect_hosts
from transformer.config import Config
from transformer.console import format_seconds, say, this_command
from transformer.data.splits import folder_name
from transformer.evaluation import plots
from transformer.parallel import devices, hosts
from transformer.signals import DONE, Interruption, Stopping
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir


def run_training(flags: HostFlags, config: Config, path: str) -> int:
    """Trains a run in the work directory `path`; returns the exit code. config: a valid one."""
    start = time.monotonic()
    compile_cache.turn_on(say)
    is_first = connect_hosts(flags)
    devices.check_accelerator(say)
    workdir = WorkDir(path, writes=is_first)
    if is_finished(workdir, config):
        say(
            f"{workdir.path} is already finished; its scores are in {workdir / 'results'}. Raise "
            f"--config.training.num_train_steps to train further, or evaluate it: "
            f"{startup_summary.evaluate_command(str(workdir.path))}"
        )
        return DONE
    try:
        workdir.open_for_training(config)
        code = _train(config, workdir)
    finally:
        workdir.close()
    say(f"all of it took {format_seconds(time.monotonic() - start)}")
    return code


def _train(config: Config, workdir: WorkDir) -> int:
    """Trains the run in a work directory that is open for it; returns the exit code."""
    stopping = Stopping(config.training.patience, is_alone=jax.process_count() == 1)
    stopping.catch_signals()
    try:
        with stopping.at_once():
            trainer = Trainer(config, workdir, stopping)
    except Interruption:
        say(f"stopped before the first step; start again with: {this_command()}")
        return stopping.exit_code
    begin_run(trainer)
    say("\n".join(startup_summary.summary_lines(config, trainer.train_step, trainer.task)))
    return trainer.run(partial(conclude_run, trainer))


def is_finished(workdir: WorkDir, config: Config) -> bool:
    """Whether the run has come to its end; raises ValueError if the hosts disagree about it."""
    finished = workdir.is_finished(config)
    seen = f"{workdir.has_run} {finished} {config.to_json()}"
    hosts.check_same("configuration or in what is in the work directory", seen.encode)
    return finished


def begin_run(trainer: Trainer) -> None:
    """Writes what the work directory needs before the first step; every host waits for it."""
    workdir = trainer.workdir
    hosts.check_same("the text that they read", trainer.task.data_fingerprint)
    if workdir.writes and not workdir.has_run:
        trainer.task.save(workdir.path)
    workdir.save_config(trainer.config)
    hosts.wait_for_all("the work directory")
    if not hosts.wait_until(lambda: workdir.has_run):
        raise ValueError(f"{workdir.path} is not shared by the hosts: name a folder that all see.")


def conclude_run(trainer: Trainer, step: int) -> None:
    """Scores the test set, draws the curves, and marks the run as finished."""
    workdir = trainer.workdir
    result = trainer.task.score_test_split()
    if not workdir.writes:
        return
    file = result.save(workdir, folder_name(trainer.config.data.test_split))
    lines = ["", *result.sample_lines(), f"test set, checkpoint {result.checkpoint}:"]
    say("\n".join([*lines, *(f"  {line}" for line in result.lines())]))
    try:
        plots.plot_curves(workdir.read_metrics(), workdir / "curves.png", str(workdir.path))
        report = file.with_name("report.html")
        say(f"curves: {workdir / 'curves.png'}   scores: {report if report.exists() else file}")
    except ValueError as error:  # no matplotlib: the run is no worse for it
        say(str(error))
    # `WorkDir.is_finished` takes this last line of metrics.jsonl as the mark of a finished run.
    scores = {
        f"test_{name}": score.value
        for name, score in result.scores.items()
        if math.isfinite(score.value)  # JSON knows no other number
    }
    num_steps = trainer.config.training.num_train_steps
    workdir.append_metrics({"step": step, **scores, "num_train_steps": num_steps})
    path = str(workdir.path)
    say("\n".join(startup_summary.next_command_lines(path, trainer.task.next_commands())))
