"""Checks, before anything is computed, that what the evaluate command writes destroys nothing."""

import os
from collections.abc import Iterable
from importlib.util import find_spec

from transformer.files import storage
from transformer.workdir import WorkDir

PICTURES = (".png", ".svg", ".pdf", ".jpg", ".jpeg", ".webp")


def check_answers_file(
    output: str, inputs: Iterable[tuple[str, str]], workdir: str, *, may_replace: bool
) -> None:
    """Raises ValueError if --output is an input, a file of the run, or one that exists.

    A job that was stopped is resumed: it has left its parts. inputs: (name of the flag, path) of
    the files to read. may_replace: whether a file that exists may be replaced.
    """
    _check_place("output", output, workdir)
    for name, file in inputs:
        local = os.path.expanduser(file)
        are_there = os.path.exists(output) and os.path.exists(local)
        if file == output or (are_there and os.path.samefile(output, local)):
            raise ValueError(
                f"--output={output} is the file of --{name}, which would be lost: name another."
            )
    # Imported here, as it imports jax: wrong flags need not wait for that.
    from transformer.inference.resumable_output import ResumableFile

    file = ResumableFile(output, {})
    if file.output.is_file() and not may_replace and not file.is_started:
        raise ValueError(f"{output} exists: name another --output, or add --overwrite.")


def check_picture_file(path: str, workdir: str) -> None:
    """Raises ValueError if --attention names no picture that can be written, or one of the run."""
    _check_place("attention", path, workdir)
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in PICTURES:
        raise ValueError(f"--attention must end in one of {', '.join(PICTURES)}, not '{suffix}'.")
    if not find_spec("matplotlib"):
        raise ValueError("--attention needs matplotlib: pip install matplotlib.")


def _check_place(name: str, path: str, workdir: str) -> None:
    """Raises ValueError if no file can be made at `path`, or it is one of the run in `workdir`."""
    real = os.path.realpath(path)
    has_folder = os.path.isdir(os.path.dirname(real)) and not os.path.isdir(real)
    if not storage.is_remote(path) and not has_folder:
        raise ValueError(f"--{name} must be a file in a folder that exists, not {path}.")
    if WorkDir(workdir).owns(path):
        raise ValueError(f"--{name}={path} is a file of the run itself: name another.")
