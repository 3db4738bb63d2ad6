"""Whether a run goes on with what it began with: its config.json, its text and its records."""

import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

import transformer
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.run_identity import RunIdentity
from transformer.config import Config
from transformer.tasks.task import Task
from transformer.workdir import WorkDir

FLAG = "--accept_changed_text"  # of train.py, and without the dashes an argument of `train`


def summary(contents: Sequence[Any]) -> bytes:
    """Returns arrays, as their checksums, and other objects as text."""
    return repr(
        [
            zlib.crc32(np.ascontiguousarray(item).data) if isinstance(item, np.ndarray) else item
            for item in contents
        ]
    ).encode()


def open_checkpoints(config: Config, workdir: WorkDir, task: Task) -> Checkpoints:
    """Opens the checkpoints of a run to train on, tied to its files and its training text."""
    run = RunIdentity(workdir.path, config, _training_checksum(task))
    return Checkpoints(workdir.checkpoints, keep=config.training.keep_checkpoints, run=run)


def _training_checksum(task: Task) -> int | None:
    """Returns a checksum of what a task trains on; None if the task does not say."""
    contents = task.training_contents()
    return zlib.crc32(summary(contents)) if contents else None


def check_same_run(workdir: WorkDir, task: Task, *, accept_changed_text: bool) -> str:
    """Compares the training text with that of the newest checkpoint; returns what to say, or "".

    accept_changed_text: the user has said that the text was changed on purpose. Raises ValueError
    if it was changed and that was not said, or if there are checkpoints without a config.json.
    Another version of this program may prepare the same text differently, so that it warns instead.
    """
    step, about = _newest_notes(workdir)
    if about and not workdir.has_run:
        raise ValueError(
            f"{workdir.path} holds checkpoints but no config.json, which says what they are of: "
            f"put it back, or name another --workdir."
        )
    noted = (about.get("run") or {}).get("text")
    if noted is None or noted == _training_checksum(task):
        return ""
    changed = f"the training text is not the one that step {step:,} was trained on"
    if accept_changed_text:
        return f"{changed}; going on with the changed text, as asked by {FLAG}"
    if about["version"] != transformer.__version__:
        return (
            f"warning: {changed}, or version {about['version']}, which wrote that checkpoint, "
            f"prepared it differently"
        )
    raise ValueError(
        f"{changed[0].upper()}{changed[1:]} (data.corpus={task.config.data.corpus}): put the "
        f"former text back, start a new run in another --workdir, or go on with the changed text "
        f"with {FLAG} (in Python, accept_changed_text=True)."
    )


def describe_records(workdir: WorkDir, count: int | None = None) -> dict[str, int]:
    """Returns number and checksum of the first `count` lines of metrics.jsonl; None: of all."""
    file = workdir / "metrics.jsonl"
    lines = file.read_bytes().splitlines()[:count] if file.is_file() else []
    return {"records": len(lines), "records_crc": zlib.crc32(b"\n".join(lines))}


def _newest_notes(workdir: WorkDir) -> tuple[int, dict[str, Any]]:
    """Returns the newest step whose notes can be read, and these; (0, {}) if there is none."""
    if not workdir.checkpoints.exists():
        return 0, {}
    checkpoints = Checkpoints(workdir.checkpoints, keep=1, read_only=True)
    try:
        for step in reversed(checkpoints.steps()):
            with suppress(Exception):  # any type: damaged, as restoring will say
                return step, checkpoints.about(step)
        return 0, {}
    finally:
        checkpoints.close()
