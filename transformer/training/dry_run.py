"""train --dry_run: describes a run and compiles its training step without training."""

import time

from transformer.config import Config
from transformer.console import phase, say
from transformer.exit_codes import DONE
from transformer.parallel import compile_cache
from transformer.parallel.mapping import make_parallel
from transformer.parallel.topology import topology_devices
from transformer.registry import TASKS
from transformer.training import startup_summary
from transformer.training.automatic import make_trainer
from transformer.training.startup_summary import estimate_lines, make_step_without_data
from transformer.training.steps import TrainStep
from transformer.workdir import WorkDir


def describe_run(config: Config, workdir: str, topology: str) -> int:
    """Prints the start-up summary and the costs of the compiled step; returns the exit code.

    topology: a TPU slice to compile for, as "v5litepod-16", which needs neither a TPU nor the text;
    "" for the devices of this machine.
    """
    compile_cache.turn_on(say)
    if topology:
        step = make_step_without_data(config, make_parallel(config, topology_devices(topology)))
        cost = TASKS[config.task].cost_without_data(config)
        lines = startup_summary.summary_lines(config, step)
        lines.append("data        not read: full rows and vocabularies as configured")
        if cost:
            lines.append(startup_summary.work_line(cost))
    else:
        folder = WorkDir(workdir, writes=False)
        trainer, choices = make_trainer(folder.with_choices(config), folder)
        config = choices.config
        step, cost = trainer.train_step, trainer.task.cost_per_step
        lines = startup_summary.summary_lines(config, step, trainer.task)
        lines += choices.lines()
    devices = step.parallel.mesh.devices.ravel().tolist()
    lines += estimate_lines(cost, config.training.num_train_steps, devices)
    say("\n".join(lines))
    describe_compiled(step)
    return DONE


def describe_compiled(step: TrainStep) -> None:
    """Prints what the compiler says of a training step, and the table of the parameters."""
    start = time.monotonic()
    with phase("compiling the training step"):
        compiled = step.lower().compile()
    device = step.parallel.mesh.devices.ravel()[0]
    lines = [
        *startup_summary.compiled_lines(compiled, device.device_kind),
        f"            in {time.monotonic() - start:,.0f} s",
        "parameters",
        *startup_summary.parameter_table(step.abstract_state.params),
    ]
    say("\n".join(lines))
