"""Which version of this package wrote a run, where a newer one did."""

import re
from collections.abc import Sequence
from typing import Any

import transformer


def newer_writer(starts: Sequence[Any]) -> str:
    """Returns a sentence if a newer version than this one trained a run; else "".

    starts: the records of environment.json.
    """
    for start in reversed(starts):
        packages = start.get("packages") if isinstance(start, dict) else None
        version = str(packages.get("transformer", "")) if isinstance(packages, dict) else ""
        if is_newer(version):
            return (
                f" Version {version} of transformer trained this run, and this is version "
                f"{transformer.__version__}: install version {version} or a newer one."
            )
    return ""


def is_newer(version: str) -> bool:
    """Whether a version of this package is newer than this one."""
    return _numbers(version) > _numbers(transformer.__version__)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d{1,9}", version)]
