"""The state of training that is carried from step to step and saved in checkpoints."""

from typing import Any, Self

import jax
import jax.numpy as jnp
from flax import struct

Params = Any  # a pytree of arrays, nested dicts named as the modules of the model


class EmaState(struct.PyTreeNode):
    """The state of an optimizer that keeps a moving average of the parameters.

    count: the number of updates made, [] int32.
    """

    optimizer: Any
    count: jax.Array
    ema: Params


class TrainState(struct.PyTreeNode):
    """The number of updates made, the parameters that are trained and the optimizer's state."""

    step: jax.Array  # [], int32
    params: Params
    opt_state: Any  # a pytree of arrays, optax's

    frozen = None  # no parameters of the model are left untrained; see `lora.AdapterState`

    @property
    def model_params(self) -> Params:
        """The parameters that the model computes with in training."""
        return self.params

    @property
    def averaged(self) -> Self:
        """The state with the moving average in place of the parameters, if there is one."""
        return self.replace(params=self.opt_state.ema) if self._has_ema else self

    @property
    def _has_ema(self) -> bool:
        return isinstance(self.opt_state, EmaState)

    def _with_ema(self, ema: Params) -> Self:
        return self.replace(opt_state=self.opt_state.replace(ema=ema))

    def with_params(self, params: Params) -> Self:
        """Returns a state that starts with other parameters."""
        state = self.replace(params=params)
        return state._with_ema(jax.tree.map(jnp.copy, params)) if self._has_ema else state

    def split(self) -> tuple[Params, Self]:
        """Returns (the parameters that a checkpoint is read for, the rest), see `join`.

        The former are the moving average, if there is one; the rest then has those of training.
        """
        rest = self._with_ema(None) if self._has_ema else self.replace(params=None)
        return self.averaged.params, rest

    def join(self, params: Params) -> Self:
        """Returns the state of which `split` made `params` and this rest."""
        return self._with_ema(params) if self._has_ema else self.replace(params=params)
