"""Ends a run whose folder is moved away while it trains."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from transformer.folders import FolderMovedError
from transformer.training.trainer import Trainer


@contextmanager
def ending_saves(trainer: Trainer) -> Iterator[None]:
    """Waits for a save that is under way when the folder turns out to be elsewhere.

    It fails in threads of Orbax, which would print their tracebacks while the process ends.
    """
    try:
        yield
    except FolderMovedError:
        with suppress(Exception):  # an error of any type
            trainer.checkpoints.wait()
        raise
