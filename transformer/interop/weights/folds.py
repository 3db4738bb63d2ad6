"""Differences between systems that a change of the weights undoes exactly, and position tables.

All parameters here are those of a translation model.
"""

import re
from collections.abc import Mapping

import numpy as np

from transformer.config import ModelConfig
from transformer.registry import POSITION_ENCODINGS

# The bias of an id that no search may find; finite, as label smoothing takes a mean.
NEVER = -1e4
# The axes along d_model, by the ends of names; the first that fits counts.
MODEL_AXES: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"(query|key|value|inner)/kernel", (0,)),
    (r"(output|outer)/kernel|table", (1,)),
    (r"(query|key|value|inner|\w+_embedding|softmax)/bias", ()),
    (r"scale|bias", (0,)),
)


def interleaved_columns(d_model: int) -> np.ndarray:
    """Returns which column of [sin … | cos …] each column of sin, cos, sin, cos, … takes.

    Hugging Face's Marian, CTranslate2 and Marian itself have the halves, the paper pairs. With
    d_model = 6, [s0 s1 s2 c0 c1 c2] becomes [s0 c0 s1 c1 s2 c2] by the columns [0 3 1 4 2 5].
    """
    return np.arange(d_model).reshape(2, -1).T.ravel()


def permute_columns(name: str, array: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns a parameter of the same function whose vectors [..., D] have permuted columns.

    Column j of every vector that a Stack adds to is then what column `columns[j]` was. Undone by
    `np.argsort(columns)`. Raises ValueError for an unknown name or another width.
    """
    fitting = (axes for end, axes in MODEL_AXES if re.search(f"(^|/)({end})$", name))
    axes = next(fitting, None)
    if axes is None:
        raise ValueError(f"{name} is no parameter of a translation model of this package.")
    for axis in axes:
        if array.shape[axis] != len(columns):
            raise ValueError(f"{name} is {array.shape}, which does not fit d_model={len(columns)}.")
        array = array.take(columns, axis)
    return array


def append_row(name: str, array: np.ndarray) -> np.ndarray:
    """Returns a table [V, D] or bias [V] with a row for one more token, which no search finds."""
    row = np.full((1, *array.shape[1:]), NEVER if name.endswith("bias") else 0.0, array.dtype)
    return np.concatenate([array, row])


def has_token_rows(name: str) -> bool:
    """Whether a parameter has a row for each token."""
    return name.split("/")[0].endswith(("_embedding", "softmax"))


def position_table(
    config: ModelConfig, params: Mapping[str, np.ndarray], name: str, length: int
) -> np.ndarray:
    """Returns the vectors of the first `length` positions, float32 [length, D].

    name: of the parameter that holds them if they are learned. Beyond `max_positions` such a table
    repeats its last row, as the model does.
    """
    places = np.arange(length)
    if config.positions == "learned":
        table = params[name]
        return table[np.minimum(places, len(table) - 1)].astype(np.float32)
    return np.asarray(POSITION_ENCODINGS[config.positions](config).apply({}, places), np.float32)
