"""The validation scores of the checkpoints in a folder, in a file of their own beside them."""

import json
import math
import warnings
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import jax
from etils import epath

from transformer import storage
from transformer.checkpoint.orbax_manager import Manager, reason_of
from transformer.reading import read_file

NAME = "scores.json"  # in the folder of the checkpoints


class ScoreFile:
    """The scores of the checkpoints in a folder, and the file that keeps them.

    by_step: (score, validation loss), which is infinite where it is not known.
    """

    def __init__(self, folder: epath.Path) -> None:
        self.by_step: dict[int, tuple[float, float]] = {}
        self._folder, self._has_new = folder, False

    def read(self, manager: Manager) -> None:
        """Reads the scores of the checkpoints, which `manager` reads.

        It warns if there were some and they are missing or damaged; training that goes on finds
        them again in metrics.jsonl. Raises OSError if the file cannot be read at the moment:
        otherwise another checkpoint would be taken for the best.
        """
        try:
            self.by_step.update(_read_scores(self._folder / NAME))
            return
        except FileNotFoundError:
            steps = manager.all_steps()
            noted = {step: manager.metrics(step) for step in steps}  # by early runs of version 0.2
            self.by_step.update({step: (at["score"], math.inf) for step, at in noted.items() if at})
            if self.by_step or not any(_num_scores_before(step, manager) for step in steps):
                return
            reason = "there is no such file"
        except (IsADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error)
        warnings.warn(
            f"The scores in {self._folder / NAME} cannot be used ({reason}): no checkpoint counts "
            f"as the best. Put the file back, name a checkpoint by its step, or train further, "
            f"which writes the scores anew.",
            stacklevel=3,
        )

    def record(self, step: int, score: float, loss: float) -> None:
        """Writes the score of a step, unless it is no number; warns if that is not possible now."""
        scored = score, loss if math.isfinite(loss) else math.inf
        if not math.isfinite(score) or self.by_step.get(step) == scored:
            return
        self.by_step[step] = scored
        self._has_new = True
        try:
            self.write()
        except Exception as error:  # any type
            warnings.warn(
                f"The score of step {step} could not be written: {reason_of(error)}; it is tried "
                f"again with the next one and at the end of the run",
                stacklevel=3,
            )

    def write(self) -> None:
        """Writes the scores with a checksum, if there are any new ones, on the first host."""
        if not self._has_new or jax.process_index() > 0:
            return
        ordered = {
            str(step): score if math.isinf(loss) else [score, loss]
            for step, (score, loss) in sorted(self.by_step.items())
        }
        content = {"scores": ordered, "checksum": _checksum(ordered)}
        storage.write_atomically(self._folder / NAME, json.dumps(content) + "\n")
        self._has_new = False


def _read_scores(file: epath.Path) -> dict[int, tuple[float, float]]:
    """Returns (score, validation loss) by step; raises ValueError, KeyError and such if damaged."""
    content = json.loads(read_file(file))
    scores = content.get("scores", content)  # without a checksum until November 2026
    if content is not scores and content["checksum"] != _checksum(scores):
        raise ValueError("they are not those that were saved")
    pairs = {  # a score alone where the loss is not known, as until November 2026
        step: noted if isinstance(noted, list) else [noted, math.inf]
        for step, noted in scores.items()
    }
    return {int(step): (float(score), float(loss)) for step, (score, loss) in pairs.items()}


def _num_scores_before(step: int, manager: Manager) -> int:
    """Returns how many scores there were when a step was saved; 0 if its notes are damaged."""
    with suppress(Exception):  # any type
        return int(manager.notes(step).get("num_scores", 0))
    return 0


def _checksum(scores: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(scores).encode())
