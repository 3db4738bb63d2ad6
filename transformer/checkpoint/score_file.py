"""The validation scores of the checkpoints in a folder, in a file of their own beside them."""

import json
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress

from etils import epath

from transformer import storage
from transformer.checkpoint.orbax_manager import Manager
from transformer.reading import parse_json, read_file

NAME = "scores.json"  # in the folder of the checkpoints


def write_scores(folder: epath.Path, scores: Mapping[int, float]) -> None:
    """Writes the scores by step, with a checksum."""
    ordered = {str(step): scores[step] for step in sorted(scores)}
    content = {"scores": ordered, "checksum": _checksum(ordered)}
    storage.write_atomically(folder / NAME, json.dumps(content) + "\n")


def find_scores(folder: epath.Path, manager: Manager) -> dict[int, float]:
    """Returns the scores by step of the checkpoints in a folder, which `manager` reads.

    It warns if there were some and they are missing or damaged; training that goes on finds them
    again in metrics.jsonl. Raises OSError if they cannot be read now: another checkpoint is not the
    best for that.
    """
    try:
        return _read_scores(folder / NAME)
    except FileNotFoundError:
        steps = manager.all_steps()
        noted = {step: manager.metrics(step) for step in steps}  # by early runs of version 0.2
        if scores := {step: metrics["score"] for step, metrics in noted.items() if metrics}:
            return scores
        if not any(_num_scores_before(step, manager) for step in steps):
            return {}
        reason = "there is no such file"
    except (IsADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error)
    warnings.warn(
        f"The scores in {folder / NAME} cannot be used ({reason}): no checkpoint counts as the "
        f"best. Put the file back, name a checkpoint by its step, or train further, which writes "
        f"the scores anew.",
        stacklevel=3,
    )
    return {}


def _read_scores(file: epath.Path) -> dict[int, float]:
    """Returns the scores by step; raises ValueError, KeyError and their like if damaged."""
    content = parse_json(read_file(file))
    scores = content.get("scores", content)  # without a checksum until November 2026
    if content is not scores and content["checksum"] != _checksum(scores):
        raise ValueError("they are not those that were saved")
    return {int(step): float(score) for step, score in scores.items()}


def _num_scores_before(step: int, manager: Manager) -> int:
    """Returns how many scores there were when a step was saved; 0 if its notes are damaged."""
    with suppress(Exception):  # any type
        return int(manager.notes(step).get("num_scores", 0))
    return 0


def _checksum(scores: Mapping[str, float]) -> int:
    return zlib.crc32(json.dumps(scores).encode())
