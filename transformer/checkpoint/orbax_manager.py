"""Makes the Orbax object that writes and reads the checkpoints of one folder."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import orbax.checkpoint as ocp
from etils.epath import PathLike
from orbax.checkpoint.checkpoint_managers import preservation_policy


def make_manager(folder: PathLike, keep: int, read_only: bool) -> ocp.CheckpointManager:
    """Returns a manager that keeps the `keep` newest steps and the one with the best score.

    A step holds "params", "rest" (the step number and the optimizer) and "about" (JSON).
    """
    policies = [
        preservation_policy.LatestN(keep),
        preservation_policy.BestN(
            get_metric_fn=_score_of, n=1, keep_checkpoints_without_metrics=False
        ),
    ]
    options = ocp.CheckpointManagerOptions(
        preservation_policy=preservation_policy.AnyPreservationPolicy(policies),
        best_fn=_score_of,  # without it Orbax does not store the scores
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


def _score_of(metrics: dict[str, float]) -> float:
    return metrics["score"]


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
