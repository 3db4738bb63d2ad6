"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME

Without flags it trains on the embedded English-German corpus. The same command resumes an
interrupted run exactly; a finished run says so. On several hosts, start the same command on each.
Exit codes: 0 done, 2 wrong input, 3 numbers that are not finite, 75 stopped by SIGTERM and
resumable, 130 stopped by SIGINT, any other an error (as when another host is lost).
"""

import math
import time
from functools import partial

import jax
from absl import flags

from transformer.cli import flags as command_line
from transformer.cli import startup_summary
from transformer.console import format_seconds, say, this_command
from transformer.data.splits import folder_name
from transformer.evaluate import plots
from transformer.parallel import devices, hosts
from transformer.parallel.mapping import make_parallel
from transformer.parallel.topology import topology_devices
from transformer.signals import DONE, Interruption, Stopping
from transformer.train.dry_run import make_step_without_data
from transformer.train.trainer import Trainer
from transformer.workdir import WorkDir

CONFIG = command_line.define_config()
WORKDIR = flags.DEFINE_string("workdir", "runs/embedded_en_de", "Folder of the run.")
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Show parameters, memory and batch plan, then stop.")
TOPOLOGY = flags.DEFINE_string(
    "topology", "", "With --dry_run: compile for a TPU slice that is not there, as v5e:4x4."
)
command_line.define_hosts()


def describe(config, step, task=None):
    """The start-up card; task: None if the text was not read."""
    num_params = sum(leaf.size for leaf in jax.tree.leaves(step.abstract_state.params))
    lines = [startup_summary.model_line(config, num_params)]
    lines += startup_summary.device_lines(config, step.parallel, step.abstract_state)
    if task:
        lines += [*task.summary_lines(), startup_summary.work_line(*task.cost_per_step)]
    say("\n".join([*lines, f"steps       {config.training.num_train_steps:,}"]))


def describe_compiled(step):
    """What the compiler says of the training step, and the table of the parameters."""
    start = time.monotonic()
    compiled = step.lower().compile()
    kind = step.parallel.mesh.devices.ravel()[0].device_kind
    lines = startup_summary.compiled_lines(compiled, kind)
    lines += [f"            in {time.monotonic() - start:,.0f} s"]
    say(
        "\n".join(
            [*lines, "parameters", *startup_summary.parameter_table(step.abstract_state.params)]
        )
    )


def conclude(trainer, step):
    """Scores the test set, draws the curves and says how to go on."""
    config, workdir = trainer.config, trainer.workdir
    result = trainer.task.score_test_split()
    if not workdir.writes:
        return
    file = result.save(workdir, folder_name(config.data.test_split))
    say("\n" + "\n".join(result.sample_lines()))
    say(f"test set, checkpoint {result.checkpoint}:")
    say("\n".join(f"  {line}" for line in result.lines()))
    try:
        plots.plot_curves(workdir.read_metrics(), workdir / "curves.png", str(workdir.path))
        page = file.with_name("report.html")
        say(f"curves: {workdir / 'curves.png'}   scores: {page if page.exists() else file}")
    except ValueError as error:  # no matplotlib: the run is no worse for it
        say(str(error))
    # The last line of metrics.jsonl is also what says that the run is finished.
    scores = {
        f"test_{name}": score.value
        for name, score in result.scores.items()
        if math.isfinite(score.value)  # JSON knows no other number
    }
    workdir.append_metrics(
        {"step": step, **scores, "num_train_steps": config.training.num_train_steps}
    )
    folder = str(workdir.path)
    say("\n".join(startup_summary.next_commands(folder, *trainer.task.next_commands())))


def main():
    if DRY_RUN.value:
        return dry_run()
    if TOPOLOGY.value:
        raise ValueError("--topology only compiles: it needs --dry_run.")
    start = time.monotonic()
    config = CONFIG.value.validate()
    speaks = command_line.connect_hosts()
    devices.check_accelerator(say)
    workdir = WorkDir(WORKDIR.value, writes=speaks)
    is_finished = workdir.is_finished(config)
    found = f"{workdir.has_run} {is_finished} {config.to_json()}"
    hosts.check_same("configuration or in what is in the work directory", found.encode)
    if is_finished:
        say(
            f"{workdir.path} is already finished; its scores are in {workdir / 'results'}. Raise "
            f"--config.training.num_train_steps to train on, or: python eval.py "
            f"--workdir={workdir.path}"
        )
        return DONE
    workdir.open_for_training(config)
    stopping = Stopping(config.training.patience, is_alone=jax.process_count() == 1)
    stopping.catch_signals()
    try:
        with stopping.at_once():
            trainer = Trainer(config, workdir, stopping)
    except Interruption:
        say(f"stopped before the first step; start again with: {this_command()}")
        return stopping.exit_code
    hosts.check_same("the text that they read", trainer.task.data_fingerprint)
    if speaks and not workdir.has_run:
        trainer.task.save(workdir.path)
    workdir.save_config(config)
    hosts.wait_for_all("the work directory")
    if not hosts.wait_until(lambda: workdir.has_run):
        raise ValueError(f"{workdir.path} is not shared by the hosts: name a folder that all see.")
    describe(config, trainer.train_step, trainer.task)
    code = trainer.run(partial(conclude, trainer))
    say(f"all of it took {format_seconds(time.monotonic() - start)}")
    return code


def dry_run():
    """Describes the run and compiles its step, for the devices here or for a slice elsewhere."""
    config = CONFIG.value.validate()
    if TOPOLOGY.value:  # needs neither a TPU nor the text
        step = make_step_without_data(
            config, make_parallel(config, topology_devices(TOPOLOGY.value))
        )
        describe(config, step)
        say("data        not read: rows and vocabularies as the configuration has them")
    else:
        trainer = Trainer(config, WorkDir(WORKDIR.value, writes=False), Stopping(0))
        step = trainer.train_step
        describe(config, step, trainer.task)
    describe_compiled(step)
    return DONE


def run():
    """Runs it as a script."""
    command_line.run(main, __doc__, default_config="configs/embedded_en_de.py")
