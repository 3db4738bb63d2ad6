"""What is known of a run before it starts: its summary, its compiled step, how long it takes."""

import re
import time
from collections.abc import Sequence
from typing import Any

import jax

from transformer.config import Config
from transformer.console import format_seconds, phase, quantity, say
from transformer.evaluation.scores import plain_table
from transformer.exit_codes import DONE
from transformer.model.costs import StepCost
from transformer.parallel.devices import find_chip, keep_compiled_programs, peak_flops
from transformer.parallel.mapping import Parallel, make_parallel
from transformer.parallel.topology import topology_devices
from transformer.registry import TASKS, task_kind
from transformer.tasks.task import Task
from transformer.training.automatic import make_trainer
from transformer.training.automatic_rules import Choices
from transformer.training.steps import TrainStep
from transformer.workdir import WorkDir

MIB = 2**20
UTILISATIONS = (0.2, 0.4, 0.6)  # shares of the peak, from a small model to a large one
LAYER = re.compile(r"/layer_\d+/")
NO_DATA = "data        not read: full rows and vocabularies as configured"


def summary_lines(
    config: Config, step: TrainStep, cost: StepCost | None, task: Task | None = None
) -> list[str]:
    """Returns the start-up summary of a run.

    cost: of a step, by the model's formula; None if unknown. task: None if its text was not read.
    """
    state, parallel = step.abstract_state, step.parallel
    num_params = count_parameters(state.frozen or state.params)
    m, has_decoder = config.model, task_kind(config.task) == "translation"
    layers = f"{m.num_layers}+{m.depth(is_decoder=True)}" if has_decoder else m.num_layers
    lines = [
        f"model       {layers} layers, d_model {m.d_model}, d_ff {m.d_ff}, {m.num_heads} heads, "
        f"{m.norm}-norm, {m.dtype}: {num_params:,} parameters"
    ]
    if state.frozen:
        lines.append(
            f"adapters    of rank {config.training.lora_rank}: {count_parameters(state.params):,} "
            f"parameters are trained, {num_params:,} are not"
        )
    devices, options = parallel.mesh.devices.ravel(), [parallel.describe()]
    num_hosts = len({device.process_index for device in devices})
    options += [name for name in ("remat", "scan_layers") if getattr(config, name)]
    if config.training.accumulate_steps > 1:
        options.append(f"in {config.training.accumulate_steps} micro-batches")
    params, whole = (parallel.bytes_per_device(tree) / MIB for tree in (state.params, state))
    lines += [
        f"devices     {len(devices)} × {devices[0].device_kind} on {quantity(num_hosts, 'host')}, "
        f"{', '.join(options)}",
        f"memory      {params:,.1f} MiB of parameters, {whole:,.1f} MiB with the optimizer's, "
        f"on each device",
    ]
    lines += task.summary_lines() if task else [NO_DATA]
    if task and task.label_smoothing:
        smoothing = f"{task.label_smoothing:g}"
        lines.append(f"loss        with label smoothing {smoothing}; perplexity without it")
    if cost:
        lines.append(
            f"step        {cost.num_targets:,.0f} target tokens, {cost.flops / 1e9:,.1f} GFLOP "
            f"(the model's, on real tokens)"
        )
    num_steps, warmup_steps = config.training.num_train_steps, config.optimizer.warmup_steps
    lines.append(f"steps       {num_steps:,}")
    if warmup_steps > num_steps:
        lines.append(
            f"warning     the learning rate rises for {warmup_steps:,} steps, so the run ends "
            f"before its peak: lower optimizer.warmup_steps"
        )
    return lines


def count_parameters(params: Any) -> int:
    """Returns how many numbers arrays hold, or abstract ones."""
    return sum(leaf.size for leaf in jax.tree.leaves(params))


def estimate_lines(
    cost: StepCost | None, num_steps: int, devices: Sequence[jax.Device]
) -> list[str]:
    """Returns lines on what all steps of a run take, in time and chip-hours.

    They assume several utilisations: the share of the peak that the model's arithmetic on real
    tokens reaches, which the reports of training give. Evaluations come on top. None for CPUs.
    cost: of a step; None if unknown.
    """
    kind, platform = devices[0].device_kind, devices[0].platform
    if platform == "cpu":  # which has no peak to speak of
        return []
    peak = peak_flops(devices)
    if not peak or not cost:
        return [f"estimate    none: the peak of {kind} or the cost of a step is not known"]
    # Of some TPUs, the two cores of a chip are two devices.
    num_chips = len({str(d.coords) if platform == "tpu" else d.id for d in devices})
    lines = [
        f"estimate    {num_steps:,} steps of {cost.flops / 1e9:,.1f} GFLOP, on "
        f"{quantity(num_chips, 'chip')} of {peak / num_chips / 1e12:,.4g} TFLOP/s:"
    ]
    for utilisation in UTILISATIONS:
        seconds = cost.flops / (utilisation * peak)
        chip_hours = num_chips * num_steps * seconds / 3600
        lines.append(
            f"            at {utilisation:.0%} of peak: {1000 * seconds:,.1f} ms per step, "
            f"{format_seconds(num_steps * seconds)}, {chip_hours:,.1f} chip-hours"
        )
    return lines


def make_step_without_data(config: Config, parallel: Parallel) -> TrainStep:
    """Makes the TrainStep from shapes alone; vocabularies are as large as `tokenizer.vocab_size`.

    Raises ValueError for a task whose shapes depend on its data.
    """
    if settings := ", ".join(config.automatic_settings()):
        raise ValueError(
            f"What is chosen depends on the text, which --topology does not read: set {settings}, "
            f"or leave out --topology."
        )
    task = TASKS[config.task]
    model, batch = task.model_and_blank_batch(config)
    loss_fn = task.make_loss_fn(model, config.training.label_smoothing)
    return TrainStep(config, parallel, model, loss_fn, batch)


def describe_run(config: Config, workdir: str, topology: str) -> int:
    """Prints the start-up summary and the costs of the compiled step; returns the exit code.

    topology: a TPU slice to compile for, as "v5litepod-16", which needs neither a TPU nor the text;
    "" for the devices of this machine.
    """
    keep_compiled_programs()
    task, choices = None, Choices(config)
    if topology:
        step = make_step_without_data(config, make_parallel(config, topology_devices(topology)))
        cost = TASKS[config.task].cost_without_data(config)
    else:
        folder = WorkDir(workdir, writes=False)
        trainer, choices = make_trainer(folder.with_choices(config), folder)
        step, task, cost = trainer.train_step, trainer.task, trainer.task.cost_per_step
    config, devices = choices.config, step.parallel.mesh.devices.ravel().tolist()
    lines = summary_lines(config, step, cost, task) + choices.lines()
    lines += estimate_lines(cost, config.training.num_train_steps, devices)
    say("\n".join(lines))
    describe_compiled(step)
    return DONE


def describe_compiled(step: TrainStep) -> None:
    """Prints what a compiled step takes of each device's memory, and the parameters' table."""
    start = time.monotonic()
    with phase("compiling the training step"):
        kept, work = (size / MIB for size in step.memory())
    verdict = ""
    if chip := find_chip(step.parallel.mesh.devices.ravel()[0].device_kind):
        fits = "fits" if kept + work < chip.memory_gib * 1024 else "DOES NOT FIT"
        verdict = f": {fits} into {chip.memory_gib} GiB"
    say(
        f"compiled    {kept:,.0f} MiB of state and batch + {work:,.0f} MiB of work space on each "
        f"device{verdict}\n            in {time.monotonic() - start:,.0f} s"
    )
    say("\n".join(["parameters", *parameter_table(step.abstract_state.params)]))


def parameter_table(params: Any) -> list[str]:
    """Returns a line per kind of array of parameters: name, shape, size and share of the whole.

    All layers that are alike share a line.
    """
    alike: dict[tuple[str, str], list[int]] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        name = LAYER.sub("/layer_*/", "/".join(str(key.key) for key in path))
        alike.setdefault((name, "×".join(map(str, leaf.shape))), []).append(leaf.size)
    rows, total = [], count_parameters(params)
    for (name, shape), sizes in [*alike.items(), (("all", ""), [total])]:
        name = name.replace("layer_*", quantity(len(sizes), "layer"))
        rows.append((name, shape, f"{sum(sizes):,}", f"{sum(sizes) / total:.1%}"))
    return [f"  {line}" for line in plain_table(rows, "lr")]
