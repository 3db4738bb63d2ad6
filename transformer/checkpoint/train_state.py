"""The state of training that is carried from step to step and saved in checkpoints."""

from collections.abc import Mapping
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
    opt_state: Any  # a pytree of arrays, optax's; perhaps an `EmaState`

    frozen = None  # no parameters of the model are left untrained; see `AdapterState`

    @property
    def model_params(self) -> Params:
        """The parameters that the model computes with in training."""
        return self.params

    def with_weights(self, params: Params, frozen: Params) -> Self:
        """Returns a state of other `params` and `frozen`."""
        return self.replace(params=params)

    @property
    def averaged(self) -> Self:
        """The state with the moving average in place of the parameters, if there is one."""
        has_ema = isinstance(self.opt_state, EmaState)
        return self.replace(params=self.opt_state.ema) if has_ema else self

    def with_params(self, params: Params) -> Self:
        """Returns a state that starts with other parameters."""
        state = self.replace(params=params)
        if isinstance(self.opt_state, EmaState):
            return state.join(jax.tree.map(jnp.copy, params))
        return state

    def split(self) -> tuple[Params, Self]:
        """Returns (the parameters that a checkpoint is read for, the rest), see `join`.

        The former are the moving average, if there is one; the rest then has those of training.
        """
        return self.averaged.params, self.join(None)

    def join(self, params: Params) -> Self:
        """Returns the state of which `split` made `params` and this rest."""
        if isinstance(self.opt_state, EmaState):
            return self.replace(opt_state=self.opt_state.replace(ema=params))
        return self.replace(params=params)


class AdapterState(TrainState):
    """A `TrainState` whose `params` are low-rank adapters (LoRA, Hu et al. 2021) of another run.

    They are {…: {"a": [in, rank], "b": [rank, out]}}: W + A·B takes the place of every matrix W of
    that run, which is not trained. B begins as 0, so that training begins with its outputs.

    frozen: the parameters of the base, by the names of the model; None in a checkpoint.
    """

    frozen: Params = None

    def with_weights(self, params: Params, frozen: Params) -> Self:
        return self.replace(params=params, frozen=frozen)

    @property
    def model_params(self) -> Params:
        return jax.jit(merge)(self.frozen, self.params)

    def split(self) -> tuple[Params, Self]:
        params, rest = super().split()
        return params, rest.replace(frozen=None)


def init_adapters(params: Params, rank: int, rng: jax.Array) -> Params:
    """Returns adapters for every matrix named "kernel": those of attention and feed-forward."""
    adapters = {}
    for number, (name, part) in enumerate(sorted(params.items())):
        part_rng = jax.random.fold_in(rng, number)
        if isinstance(part, Mapping):
            adapters[name] = init_adapters(part, rank, part_rng)
        elif name == "kernel" and part.ndim == 2:
            rows, columns = part.shape
            noise = jax.random.normal(part_rng, (rows, rank)) / rows**0.5
            adapters[name] = {"a": noise, "b": jnp.zeros((rank, columns))}
    return {name: part for name, part in adapters.items() if part}


def merge(params: Params, adapters: Params) -> Params:
    """Returns `params` with W + A·B in place of every W that has an adapter."""
    if not isinstance(params, Mapping):
        return params + jnp.matmul(adapters["a"], adapters["b"], precision="highest")
    return {
        name: merge(part, adapters[name]) if name in adapters else part
        for name, part in params.items()
    }
