"""Makes the Orbax object that writes and reads the checkpoints of one folder."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orbax.checkpoint as ocp
from etils.epath import PathLike
from orbax.checkpoint.checkpoint_managers import preservation_policy


class _Best(preservation_policy.PreservationPolicy):
    """Keeps the step with the highest score, the newest of several; scores: may grow."""

    def __init__(self, scores: Mapping[int, float]) -> None:
        self._scores = scores

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        best = best_of([checkpoint.step for checkpoint in checkpoints], self._scores)
        return [checkpoint.step == best for checkpoint in checkpoints]


def best_of(steps: Sequence[int], scores: Mapping[int, float]) -> int | None:
    """Returns the step with the highest score, the newest of several; None if none has a score."""
    return max(
        (step for step in steps if step in scores), key=lambda s: (scores[s], s), default=None
    )


def make_manager(
    folder: PathLike, keep: int, scores: Mapping[int, float], read_only: bool
) -> ocp.CheckpointManager:
    """Returns a manager that keeps the `keep` newest steps and the one with the best score.

    A step holds "params", "rest" (the step number and the optimizer) and "about" (JSON).
    """
    policies = [preservation_policy.LatestN(keep), _Best(scores)]
    options = ocp.CheckpointManagerOptions(
        preservation_policy=preservation_policy.AnyPreservationPolicy(policies),
        read_only=read_only,
        save_interval_steps=0 if read_only else 1,
        create=not read_only,
    )
    handlers = {
        "params": ocp.PyTreeCheckpointHandler(),
        "rest": ocp.PyTreeCheckpointHandler(),
        "about": ocp.JsonCheckpointHandler(),
    }
    with _without_read_only_warning():
        return ocp.CheckpointManager(folder, item_handlers=handlers, options=options)


@contextmanager
def _without_read_only_warning() -> Iterator[None]:
    """Drops Orbax's warning that a folder opened for reading is read-only."""
    logger = logging.getLogger("absl")

    def is_other(record: logging.LogRecord) -> bool:
        return "is read only" not in record.getMessage()

    logger.addFilter(is_other)
    try:
        yield
    finally:
        logger.removeFilter(is_other)
