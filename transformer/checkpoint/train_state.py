"""The state of training that is carried from step to step and saved in checkpoints."""

from typing import Any

import jax
from flax import struct

Params = Any  # a pytree of arrays, nested dicts named as the modules of the model


class TrainState(struct.PyTreeNode):
    """The number of updates made, the parameters and the state of the optimizer."""

    step: jax.Array  # [], int32
    params: Params
    opt_state: Any  # a pytree of arrays, optax's
