"""The validation scores of the checkpoints in a folder, in a file of their own beside them."""

import json
import warnings
import zlib
from collections.abc import Mapping

from etils import epath

from transformer import storage
from transformer.reading import parse_json, read_file

NAME = "scores.json"  # in the folder of the checkpoints


def write_scores(folder: epath.Path, scores: Mapping[int, float]) -> None:
    """Writes the scores by step, with a checksum."""
    ordered = {str(step): scores[step] for step in sorted(scores)}
    content = {"scores": ordered, "checksum": _checksum(ordered)}
    storage.write_atomically(folder / NAME, json.dumps(content) + "\n")


def read_scores(folder: epath.Path) -> dict[int, float] | None:
    """Returns the scores by step; None if there is no such file.

    A file that is damaged is warned of, and taken for one without scores: training finds them again
    in metrics.jsonl. Raises OSError if it cannot be read now: another checkpoint is not the best
    for that.
    """
    file = folder / NAME
    try:
        content = parse_json(read_file(file))
        scores = content.get("scores", content)  # without a checksum until November 2026
        if content is not scores and content["checksum"] != _checksum(scores):
            raise ValueError("they are not those that were saved")
        return {int(step): float(score) for step, score in scores.items()}
    except FileNotFoundError:
        return None
    except (IsADirectoryError, ValueError, KeyError, TypeError, AttributeError) as error:
        warnings.warn(
            f"The scores in {file} cannot be used ({error}): no checkpoint counts as the best "
            f"until train.py --workdir={folder.parent} has written them anew.",
            stacklevel=2,
        )
        return {}


def _checksum(scores: Mapping[str, float]) -> int:
    return zlib.crc32(json.dumps(scores).encode())
