"""The notes beside the arrays of a checkpoint, and the check that they are whole and its own."""

import json
import zlib
from collections.abc import Mapping
from typing import Any

import transformer
from transformer.config.versions import is_newer

FORMAT = 2  # 1, until November 2026, has no checksum, step or run


class NewerFormatError(ValueError):
    """A checkpoint was written by a newer version, in a format that this one does not know."""


def make_notes(step: int, **notes: Any) -> dict[str, Any]:
    """Returns the notes of a step: format, version and checksum beside those given, as JSON."""
    about = {"format": FORMAT, "version": transformer.__version__, "step": step, **notes}
    return about | {"checksum": _checksum(about)}


def check_notes(step: int, about: Mapping[str, Any]) -> None:
    """Raises ValueError unless notes are whole and those of this step.

    Raises NewerFormatError for those of a newer version, whose checksum may be another.
    """
    if about["format"] > FORMAT and is_newer(str(about["version"])):
        raise NewerFormatError(
            f"it was written by version {about['version']} of transformer, in a format that this "
            f"version, {transformer.__version__}, does not know; install that version"
        )
    if about["format"] == 1 and "checksum" not in about:
        return
    if about["checksum"] != _checksum({k: v for k, v in about.items() if k != "checksum"}):
        raise ValueError("its notes (about/metadata) are not those that were saved")
    if about["step"] != step:
        raise ValueError(f"its folder holds the checkpoint of step {about['step']}")


def _checksum(notes: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(notes, sort_keys=True).encode())
