"""What a run carries from step to step, and what a checkpoint holds."""

from typing import Any

import jax
from flax import struct


@struct.dataclass
class TrainState:
    """All that a run carries from step to step, and all that a checkpoint holds."""

    step: jax.Array  # number of updates made
    params: Any
    opt_state: Any
