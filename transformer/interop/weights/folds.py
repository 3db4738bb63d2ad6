"""Differences between systems that a change of the weights undoes exactly, and position tables."""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from transformer.config import ModelConfig
from transformer.interop.portable_model import FlatParams
from transformer.model.embedding import make_position_encoding

# The bias of an id that no search may find; finite, as label smoothing takes a mean.
NEVER = -1e4
# The axes along d_model, by the ends of names; the first that fits counts.
MODEL_AXES: tuple[tuple[str, tuple[int, ...]], ...] = (
    (r"(query|key|value|inner)/kernel", (0,)),
    (r"(output|outer)/kernel", (1,)),
    (r"(query|key|value|inner)/bias", ()),
    (r"prediction/dense/kernel|pooler/dense/kernel", (0, 1)),
    (r"classes/kernel", (0,)),
    (r"classes/bias", ()),
    (r"patches/kernel", (1,)),
    (r"table", (1,)),
    (r"(\w+_embedding|softmax|tokens/table)/bias", ()),
    (r"scale|bias|class_token", (0,)),
)


def interleaved_columns(d_model: int) -> np.ndarray:
    """Returns which column of [sin … | cos …] each column of sin, cos, sin, cos, … takes.

    Hugging Face's Marian, CTranslate2 and Marian itself have the halves, the paper pairs. With
    d_model = 6, [s0 s1 s2 c0 c1 c2] becomes [s0 c0 s1 c1 s2 c2] by the columns [0 3 1 4 2 5].
    """
    return np.arange(d_model).reshape(2, -1).T.ravel()


def permute_model_axis(params: Mapping[str, np.ndarray], columns: np.ndarray) -> FlatParams:
    """Returns the parameters of the same function whose vectors [..., D] have permuted columns.

    Column j of every vector that a Stack adds to is then what column `columns[j]` was. Undone by
    `np.argsort(columns)`.
    """

    return {name: permute_array(name, array, columns) for name, array in params.items()}


def permute_array(name: str, array: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Returns one parameter as `permute_model_axis` does; ValueError if it has another width."""
    for axis in model_axes(name):
        if array.shape[axis] != len(columns):
            raise ValueError(f"{name} is {array.shape}, which does not fit d_model={len(columns)}.")
        array = array.take(columns, axis)
    return array


def model_axes(name: str) -> tuple[int, ...]:
    """Returns the axes of a parameter that run along d_model; ValueError for an unknown name."""
    for pattern, axes in MODEL_AXES:
        if re.search(f"(^|/)({pattern})$", name):
            return axes
    raise ValueError(f"{name} is no parameter of a model of this package.")


def reorder_rows(array: np.ndarray, order: Sequence[int], new_row: float = 0.0) -> np.ndarray:
    """Returns rows `order` of a table [V, D] or a bias [V]; -1 is a new row, of `new_row`.

    >>> reorder_rows(np.array([10.0, 11.0, 12.0]), [2, -1, 0, 0])
    array([12.,  0., 10., 10.])
    """
    indices = np.asarray(order)
    rows = array[np.maximum(indices, 0)]
    rows[indices < 0] = new_row
    return rows


def reorder_vocabulary(name: str, array: np.ndarray, orders: Sequence[Sequence[int]]) -> np.ndarray:
    """Returns a parameter of a translation model; its rows, if they are tokens, are reordered.

    orders: of source and target, as `reorder_rows` takes them. A new row is zeros, and as a bias
    NEVER. Raises ValueError if there is not a row for every token.
    """
    part = name.split("/")[0]
    if not part.endswith("_embedding") and part != "softmax":
        return array
    order = orders[0 if part.startswith("source") else 1]
    if len(array) != max(order) + 1:
        raise ValueError(
            f"{name} has {len(array)} rows, but its vocabulary {max(order) + 1} pieces."
        )
    return reorder_rows(array, order, NEVER if name.endswith("bias") else 0.0)


def position_table(
    config: ModelConfig, params: Mapping[str, np.ndarray], side: str, length: int
) -> np.ndarray:
    """Returns the vectors of the first `length` positions, float32 [length, D].

    side: "source" or "target", which learn their tables apart. Beyond `max_positions` a learned
    table repeats its last row, as the model does.
    """
    places = np.arange(length)
    if config.positions == "learned":
        table = params[f"{side}_positions/table"]
        return table[np.minimum(places, len(table) - 1)].astype(np.float32)
    return np.asarray(make_position_encoding(config).apply({}, places), np.float32)
