"""The state of training that is carried from step to step and saved in checkpoints."""

from typing import Any, Self

import jax
from flax import struct

Params = Any  # a pytree of arrays, nested dicts named as the modules of the model


class TrainState(struct.PyTreeNode):
    """The number of updates made, the parameters that are trained and the optimizer's state."""

    step: jax.Array  # [], int32
    params: Params
    opt_state: Any  # a pytree of arrays, optax's

    frozen = None  # no parameters of the model are left untrained; see `lora.AdapterState`

    @property
    def model_params(self) -> Params:
        """The parameters that the model computes with."""
        return self.params

    def without_params(self) -> Self:
        """Returns the part that a checkpoint keeps apart from the parameters."""
        return self.replace(params=None)
