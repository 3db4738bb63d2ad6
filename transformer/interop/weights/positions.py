"""The position encodings as tables, for systems that store them."""

from collections.abc import Mapping

import numpy as np

from transformer.config import ModelConfig


def position_table(
    config: ModelConfig, params: Mapping[str, np.ndarray], side: str, length: int
) -> np.ndarray:
    """Returns the vectors of the first `length` positions, float32 [length, D].

    side: "source" or "target", which learn their tables apart. Beyond `max_positions` a learned
    table repeats its last row, as the model does.
    """
    if config.positions == "learned":
        table = params[f"{side}_positions/table"]
        return table[np.minimum(np.arange(length), len(table) - 1)].astype(np.float32)
    return sinusoid_table(config.positions, length, config.d_model)


def sinusoid_table(positions: str, length: int, d_model: int) -> np.ndarray:
    """Returns the vectors that `model.positions` names, float32 [length, D]: sin, cos, sin, cos, …

    They equal those of `model.embedding` within the rounding of float32.
    """
    count = np.arange(d_model // 2)
    divisor = d_model / 2 if positions == "sinusoidal" else max(1, d_model // 2 - 1)
    frequencies = np.float32(10_000) ** -(count / divisor).astype(np.float32)
    first = 2 if positions == "sinusoidal_fairseq" else 0
    angles = np.arange(first, first + length, dtype=np.float32)[:, None] * frequencies
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, d_model)
