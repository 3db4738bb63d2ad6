"""Reads checkpoints one after the other, and leaves out with a warning those that are damaged."""

import errno
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import jax
from etils.epath import PathLike

from transformer.checkpoint.notes import NewerFormatError
from transformer.checkpoint.run_identity import OtherRunError
from transformer.signals import ResumableError

T = TypeVar("T")
# Errors that say nothing of the file: it may be read at another time. Those of stores are text.
PASSING = errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE, errno.ENOMEM
PASSING_TEXTS = *map(os.strerror, PASSING), "DEADLINE_EXCEEDED", "UNAVAILABLE"


def each_intact(
    steps: Sequence[int], read: Callable[[int], T], folder: PathLike
) -> Iterator[tuple[int, T]]:
    """Yields (step, `read(step)`) of each step for which it does not fail.

    folder: of the checkpoints, for messages. Raises ValueError if there are no steps or all fail.
    If all belong to another run, its text is that of the first such error, which names the file. A
    checkpoint of a newer version, or one that cannot be read at the moment (ResumableError), raises
    at once: to train on from an older step would undo its training.
    """
    if not steps:
        raise ValueError(
            f"{folder} holds no checkpoint; train first, or name another work directory."
        )
    failures: dict[int, Exception] = {}
    has_any = False
    for step in steps:
        try:
            result = read(step)
        except NewerFormatError as error:
            raise ValueError(f"Checkpoint {step} of {folder} cannot be used: {error}.") from None
        except Exception as error:  # Orbax raises eight types of error for damaged files
            if any(text in str(error) for text in PASSING_TEXTS):
                if isinstance(error, jax.errors.JaxRuntimeError):  # another host is lost
                    raise
                raise ResumableError(
                    f"{folder}/{step} cannot be read at the moment ({_first_line(error)}): start "
                    f"again, or remove this checkpoint to use an older one."
                ) from error
            failures[step] = error
            continue
        _warn_of(failures)
        has_any = True
        yield step, result
    if not has_any and all(isinstance(error, OtherRunError) for error in failures.values()):
        raise ValueError(str(failures[steps[0]]))
    _warn_of(failures)
    if not has_any:
        raise ValueError(f"No checkpoint of {folder} could be restored; see the warnings above.")


def _warn_of(failures: dict[int, Exception]) -> None:
    """Warns of each failure, and forgets it."""
    for step, error in failures.items():
        warnings.warn(f"Checkpoint {step} cannot be used: {_first_line(error)}", stacklevel=5)
    failures.clear()


def _first_line(error: Exception) -> str:
    return str(error).split("\n")[0][:300]
