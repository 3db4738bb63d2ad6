"""Reads small files, and says why a file cannot be read."""

import os

from etils import epath


class TransientError(ValueError):
    """Another try may succeed: finished work is kept."""


def unreadable(name: str, error: Exception) -> ValueError:
    """Returns the error for a file: a TransientError unless its content is at fault."""
    kind = TransientError if getattr(error, "errno", None) else ValueError
    return kind(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")


def read_file(path: epath.Path) -> bytes:
    """Returns the content of a file; raises OSError, which names it, if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno and not error.filename:  # one of reading, and not of opening
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise
