"""Reads small files that anybody may have made, and says why a file cannot be read."""

import json
import os
from typing import Any

from etils import epath


class PassingError(ValueError):
    """What failed may succeed at another time: what has been made until then is kept."""


def unreadable(name: str, error: Exception) -> ValueError:
    """Returns the error for a file: a PassingError unless its content is at fault."""
    kind = PassingError if getattr(error, "errno", None) else ValueError
    return kind(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}.")


def read_file(path: epath.Path) -> bytes:
    """Returns the content of a file; raises ValueError for a pipe or a device, which may not end.

    Raises OSError if it cannot be read.
    """
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise ValueError(f"{path} must be a file, not a pipe or a device.")
    try:
        return path.read_bytes()
    except OSError as error:
        if error.errno and not error.filename:  # one of reading, and not of opening
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None
        raise


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text; raises ValueError if it is none, or nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("the JSON is nested too deep to be read") from None
