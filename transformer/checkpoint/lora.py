"""Low-rank adapters (LoRA, Hu et al. 2021): W + A·B for every matrix W of another run's parameters.

W, of the base, is not trained. A [in, rank] and B [rank, out] are, and they alone are saved. B
begins as 0, so that training begins with the outputs of the base.
"""

from collections.abc import Mapping
from typing import Self

import jax
import jax.numpy as jnp

from transformer.checkpoint.train_state import Params, TrainState


class AdapterState(TrainState):
    """A `TrainState` whose `params` are adapters: {…: {"a": [in, rank], "b": [rank, out]}}.

    frozen: the parameters of the base, by the names of the model; None in a checkpoint.
    """

    frozen: Params = None

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
