"""Makes the Orbax object that writes and reads the checkpoints of one folder."""

import logging
import shutil
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint.checkpoint_managers import preservation_policy

from transformer.exit_codes import ResumableError
from transformer.files.reading import reason_of
from transformer.files.storage import is_remote, remove_folder

BestOf = Callable[[Sequence[int]], int | None]  # the best of some steps; None if none has a score
ENDS = (
    "A checkpoint could not be written: {}. Start the same command on every host again: the run "
    "continues from the checkpoint before."
)


class _Best(preservation_policy.PreservationPolicy):
    """Keeps the best step, which may be another one at each save."""

    def __init__(self, best_of: BestOf) -> None:
        self._best_of = best_of

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        best = self._best_of([checkpoint.step for checkpoint in checkpoints])
        return [checkpoint.step == best for checkpoint in checkpoints]


class _NotingManager(ocp.CheckpointManager):
    """Notes the error of this host's part of a save, before all hosts are waited for."""

    own_error: Exception | None = None

    def _wait_for_checkpointers(self) -> None:
        try:
            super()._wait_for_checkpointers()
        except Exception as error:  # any type
            self.own_error = error
            raise


class Manager:
    """Orbax's manager of a folder, which is made anew after a save that failed.

    Orbax would raise the error again at the next save, which would then be lost too, and leave its
    temporary folder behind. On several hosts a failed save ends the run. It has the methods of a
    `CheckpointManager`.
    """

    def __init__(
        self, folder: epath.Path, make: Callable[[], _NotingManager], read_only: bool
    ) -> None:
        self._folder, self._make, self._is_writer = folder, make, not read_only
        self._remove_unfinished()
        self._orbax = make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._orbax, name)

    def save(self, step: int, args: ocp.args.Composite) -> None:
        """Starts to save a step; warns if the save before it turns out to have failed."""
        try:
            self.wait_until_finished()
        except Exception as error:  # any type
            if jax.process_count() > 1:
                raise
            warnings.warn(
                f"a checkpoint before step {step} could not be written: {reason_of(error)}",
                stacklevel=3,
            )
        with self._beginning_anew():
            self._orbax.save(step, args=args, force=True)

    def about(self, step: int) -> dict[str, Any]:
        """Returns the JSON beside the arrays of a step, unchecked."""
        items = ocp.args.Composite(about=ocp.args.JsonRestore())
        return self._orbax.restore(step, args=items)["about"]

    def wait_until_finished(self) -> None:
        """Waits for a save; raises its error."""
        with self._beginning_anew():
            if jax.process_count() > 1:
                self._wait_for_own_part()
            self._orbax.wait_until_finished()

    def _wait_for_own_part(self) -> None:
        """Raises the error of this host while Orbax waits for the others, which wait for it."""
        waiting = threading.Thread(target=self._wait_in_silence, daemon=True)
        waiting.start()
        while waiting.is_alive():
            if self._orbax.own_error:
                raise self._orbax.own_error
            waiting.join(0.02)

    def _wait_in_silence(self) -> None:
        with suppress(Exception):
            self._orbax.wait_until_finished()

    def close(self) -> None:
        """Waits for a save and ends Orbax's threads; raises the error of the save."""
        with self._beginning_anew():
            self._orbax.close()
        self._remove_unfinished()

    @contextmanager
    def _beginning_anew(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # any type
            if jax.process_count() == 1:
                with suppress(Exception):  # the same error
                    self._orbax.close()
                # Its threads may still be writing there: `close` removes what comes after this.
                self._remove_unfinished(partial(shutil.rmtree, ignore_errors=True))
                self._orbax = self._make()
            elif not isinstance(error, jax.errors.JaxRuntimeError):  # that of a lost host
                raise ResumableError(ENDS.format(reason_of(error))) from error
            raise

    def _remove_unfinished(self, remove: Callable[[epath.Path], None] = remove_folder) -> None:
        if self._is_writer and jax.process_index() == 0 and not is_remote(self._folder):
            for unfinished in self._folder.glob("*.orbax-checkpoint-tmp"):
                remove(unfinished)


def make_manager(folder: epath.Path, keep: int, best_of: BestOf, read_only: bool) -> Manager:
    """Returns a manager that keeps the `keep` newest steps and the best one.

    A step holds "params", "rest" (the step number and the optimizer) and "about" (JSON).
    """
    policies = [preservation_policy.LatestN(keep), _Best(best_of)]
    options = ocp.CheckpointManagerOptions(
        preservation_policy=preservation_policy.AnyPreservationPolicy(policies),
        read_only=read_only,
        save_interval_steps=0 if read_only else 1,
        create=not read_only,
        # Else a folder that cannot be made keeps threads of Orbax, and so the process, for minutes.
        async_options=ocp.AsyncOptions(create_directories_asynchronously=False),
    )

    def make() -> _NotingManager:
        handlers = {
            "params": ocp.PyTreeCheckpointHandler(),
            "rest": ocp.PyTreeCheckpointHandler(),
            "about": ocp.JsonCheckpointHandler(),
        }
        with _without_read_only_warning():
            return _NotingManager(folder, item_handlers=handlers, options=options)

    return Manager(folder, make, read_only)


@contextmanager
def _without_read_only_warning() -> Generator[None]:
    """Drops Orbax's warning that a folder opened for reading is read-only."""
    logger = logging.getLogger("absl")

    def says_more(record: logging.LogRecord) -> bool:
        return "is read only" not in record.getMessage()

    logger.addFilter(says_more)
    try:
        yield
    finally:
        logger.removeFilter(says_more)
