"""Makes the Orbax object that writes and reads the checkpoints of one folder."""

import shutil
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import jax
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint.checkpoint_managers import preservation_policy

from transformer.exit_codes import ResumableError
from transformer.files.reading import reason_of
from transformer.files.storage import is_remote

BestOf = Callable[[Sequence[int]], int | None]  # the best of some steps; None if none has a score


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
    `CheckpointManager`. It keeps the `keep` newest steps and the best one; a step holds "params",
    "rest" (the step number and the optimizer) and "about" (JSON).
    """

    def __init__(self, folder: epath.Path, keep: int, best_of: BestOf, *, read_only: bool) -> None:
        self._folder, self._read_only = folder, read_only
        policies = [preservation_policy.LatestN(keep), _Best(best_of)]
        # Orbax's own `read_only` prints a warning, and nothing is saved or deleted without it.
        self._options = ocp.CheckpointManagerOptions(
            preservation_policy=preservation_policy.AnyPreservationPolicy(policies),
            create=not read_only,
            # Else a folder that cannot be made keeps threads, and so the process, for minutes.
            async_options=ocp.AsyncOptions(create_directories_asynchronously=False),
        )
        self._open()

    def _open(self) -> None:
        self._remove_unfinished()
        handlers = {"about": ocp.JsonCheckpointHandler()}
        handlers |= {name: ocp.PyTreeCheckpointHandler() for name in ("params", "rest")}
        self._orbax = _NotingManager(self._folder, item_handlers=handlers, options=self._options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._orbax, name)

    def save(self, step: int, args: ocp.args.Composite) -> None:
        """Starts to save a step; warns if the save before it turns out to have failed."""
        try:
            self.wait_until_finished()
        except Exception as error:  # any type
            if jax.process_count() > 1:
                raise
            said = f"a checkpoint before step {step} could not be written: {reason_of(error)}"
            warnings.warn(said, stacklevel=3)
        with self._beginning_anew():
            self._orbax.save(step, args=args, force=True)

    def wait_until_finished(self) -> None:
        """Waits for a save; raises its error, on several hosts that of this one at once."""

        def wait_in_silence() -> None:
            with suppress(Exception):
                self._orbax.wait_until_finished()

        with self._beginning_anew():
            if jax.process_count() > 1:  # Orbax would first wait for the others, which wait for us
                waiting = threading.Thread(target=wait_in_silence, daemon=True)
                waiting.start()
                while waiting.is_alive():
                    if self._orbax.own_error:
                        raise self._orbax.own_error
                    waiting.join(0.02)
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
                self._open()
            elif not isinstance(error, jax.errors.JaxRuntimeError):  # that of a lost host
                raise ResumableError(
                    f"A checkpoint could not be written: {reason_of(error)}. Start the same "
                    f"command on every host again: the run continues from the checkpoint before."
                ) from error
            raise

    def _remove_unfinished(self) -> None:
        if not self._read_only and jax.process_index() == 0 and not is_remote(self._folder):
            for unfinished in self._folder.glob("*.orbax-checkpoint-tmp"):
                shutil.rmtree(unfinished, ignore_errors=True)
