"""Reads files, and says in one line why something failed."""

from pathlib import Path

from etils import epath


class TransientError(ValueError):
    """A retry may succeed: finished work is kept."""


def reason_of(error: BaseException) -> str:
    """Returns why something failed, on one line of at most 300 characters.

    Of an error of the operating system that is its text alone, without number and file.
    """
    text = getattr(error, "strerror", None) or str(error).split(" [tensorstore_spec=")[0]
    return " ".join(text.split())[:300]


def unreadable(name: str, error: Exception) -> ValueError:
    """Returns the error for a file: a TransientError unless its content is at fault."""
    kind = TransientError if getattr(error, "errno", None) else ValueError
    return kind(f"{name} cannot be read: {reason_of(error)}.")


def read_file(path: epath.Path | Path, name: str = "") -> bytes:
    """Returns the content of a file; raises ValueError, which names it, if it cannot be read.

    name: what the error calls it; "" for its path.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(name or str(path), error) from None
