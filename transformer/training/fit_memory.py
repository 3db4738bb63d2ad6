"""Chooses how many micro-batches a batch is divided into, so that its step fits the memory."""

from collections.abc import Callable

import jax

from transformer.config import Config
from transformer.console import phase
from transformer.parallel import hosts
from transformer.training.choices import Choices
from transformer.training.steps import TrainStep
from transformer.training.trainer import Trainer

NUM_PARTS = "training.accumulate_steps"
MEMORY_SHARE = 0.9  # of a device's memory; the rest is for the batches that follow
GIB = 2**30


def make_fitting_trainer(choices: Choices, make_trainer: Callable[[Config], Trainer]) -> Trainer:
    """Returns the trainer of a run; an open `training.accumulate_steps` is raised until it fits.

    It fits if the compiler's figure for the step is at most the memory, if that is known. Raises
    ValueError if even micro-batches of one row for each device are too large.
    """
    trainer, limit = make_trainer(choices.config.validate()), _memory_limit(choices.config)
    if not (limit and choices.is_open(NUM_PARTS)):
        return trainer
    parts = choices.config.training.accumulate_steps
    rows_per_device = -(
        -trainer.task.training_batches.rows_per_batch // trainer.parallel.num_row_shards
    )
    with phase("choosing micro-batches that fit the memory"):
        while (needed := step_memory(_step_in_parts(trainer, parts))) > limit:
            if parts >= rows_per_device:
                raise ValueError(
                    f"A step in {parts} micro-batches still needs {needed / GIB:.3g} GiB of the "
                    f"{limit / GIB:.3g} GiB on each device: set remat=True, raise mesh.fsdp, or "
                    f"lower data.row_length."
                )
            parts *= 2
    reason = f"{needed / GIB:.3g} of {limit / GIB:.3g} GiB on each device"
    choices.set(NUM_PARTS, parts, reason)
    return trainer if choices.config == trainer.config else make_trainer(choices.config)


def step_memory(step: TrainStep) -> int:
    """Returns the bytes that the compiled step needs on each device, its state included."""
    memory = step.lower().compile().memory_analysis()
    assert memory  # every backend that we compile for knows it
    results = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return memory.argument_size_in_bytes + results + memory.temp_size_in_bytes


def _step_in_parts(trainer: Trainer, num_parts: int) -> TrainStep:
    task, batch = trainer.task, trainer.train_step.example_batch
    config = trainer.config.with_values({NUM_PARTS: num_parts})
    return TrainStep(config, trainer.parallel, task.model, task.loss_fn, batch)


def _memory_limit(config: Config) -> float:
    """Returns the bytes that a step may take on the smallest device; 0 if nothing is known."""
    if config.training.memory_gib:
        return config.training.memory_gib * GIB
    found = (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    return MEMORY_SHARE * min(map(float, hosts.gather_from_hosts(str(found).encode())))
