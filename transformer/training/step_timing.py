"""Times the compiled training step of a run that has not begun."""

import time
from collections.abc import Callable
from typing import NamedTuple

import jax

from transformer.parallel import hosts
from transformer.training.prefetch import prefetch
from transformer.training.trainer import Trainer

Clock = Callable[[], float]  # seconds, from any start

TIMED_SECONDS = 5.0
WARM_STEPS = 3  # that fill caches; they are not timed


class StepTiming(NamedTuple):
    """What was measured. compiling: seconds to compile the step; step: seconds that one takes."""

    compiling: float
    step: float


def time_steps(trainer: Trainer, clock: Clock = time.monotonic) -> StepTiming:
    """Compiles the training step and times it for about `TIMED_SECONDS`; all hosts agree.

    What it learns is thrown away.
    """
    state = trainer.train_step.init_state()
    make_batch, training_batches = trainer.train_step.make_batch, trainer.task.training_batches
    batches = prefetch(lambda step: make_batch(training_batches, step), range(10_000))

    def run(num_steps: int) -> float:
        nonlocal state
        start = clock()
        for _ in range(num_steps):
            state, _ = trainer.train_step(state, next(batches))
        jax.block_until_ready(state)
        seconds = clock() - start
        return float(hosts.gather_from_hosts(repr(seconds).encode())[0])

    first = run(1)
    warm = run(WARM_STEPS) / WARM_STEPS
    num_steps = max(WARM_STEPS, min(1000, int(TIMED_SECONDS / max(warm, 1e-6))))
    seconds = run(num_steps) / num_steps
    batches.close()
    return StepTiming(max(0.0, first - seconds), seconds)
