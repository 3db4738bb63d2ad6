"""What is known of a run before it starts: its compiled step, and how long it will take."""

from collections.abc import Sequence

import jax

from transformer.config import Config
from transformer.console import format_seconds
from transformer.model.costs import StepCost
from transformer.parallel.devices import find_chip
from transformer.parallel.mapping import Parallel
from transformer.registry import TASKS
from transformer.training.steps import TrainStep

UTILISATIONS = (0.2, 0.4, 0.6)  # shares of the peak, from a small model to a large one


def make_step_without_data(config: Config, parallel: Parallel) -> TrainStep:
    """Makes the TrainStep from shapes alone; vocabularies are as large as `tokenizer.vocab_size`.

    Raises ValueError for a task whose shapes depend on its data.
    """
    if config.automatic_settings():
        raise ValueError(
            f"What is chosen depends on the text, which --topology does not read: set "
            f"{', '.join(config.automatic_settings())}, or leave out --topology."
        )
    task = TASKS[config.task]
    model, batch = task.model_and_blank_batch(config)
    loss_fn = task.make_loss_fn(model, config.training.label_smoothing)
    return TrainStep(config, parallel, model, loss_fn, batch)


def estimate_lines(
    cost: StepCost | None, num_steps: int, devices: Sequence[jax.Device]
) -> list[str]:
    """Returns lines on what all steps of a run take, in time and chip-hours.

    They assume several utilisations: the share of the peak that the model's arithmetic on real
    tokens reaches, which the reports of training give. Evaluations come on top. None for CPUs.
    cost: of a step; None if unknown.
    """
    kind = devices[0].device_kind
    chip = find_chip(kind)
    if devices[0].platform == "cpu":  # which has no peak to speak of
        return []
    if not chip or not cost:
        reason = f"the peak of {kind}" if not chip else "what a step costs"
        return [f"estimate    none, as {reason} is not known"]
    has_cores = devices[0].platform == "tpu"  # of some TPUs, the two of a chip are two devices
    num_chips = len({str(device.coords) if has_cores else device.id for device in devices})
    peak = chip.peak_tflops * 1e12 * len(devices)
    lines = [
        f"estimate    {num_steps:,} steps of {cost.flops / 1e9:,.1f} GFLOP, on {num_chips} "
        f"chip{'s' * (num_chips > 1)} of {peak / num_chips / 1e12:,.4g} TFLOP/s:"
    ]
    for utilisation in UTILISATIONS:
        seconds = cost.flops / (utilisation * peak)
        chip_hours = num_chips * num_steps * seconds / 3600
        lines.append(
            f"            at {utilisation:.0%} of peak: {1000 * seconds:,.1f} ms per step, "
            f"{format_seconds(num_steps * seconds)}, {chip_hours:,.1f} chip-hours"
        )
    return lines
