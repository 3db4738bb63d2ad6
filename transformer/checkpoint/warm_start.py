"""Starts a run from the parameters of another one."""

from typing import Any

import jax
from etils.epath import PathLike

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.checkpoint.train_state import TrainState
from transformer.workdir import WorkDir


def warm_start(state: TrainState, workdir: PathLike) -> tuple[TrainState, str]:
    """Copies every array of another run that has the same name and shape in `state`.

    Arrays that the other run lacks keep their initial values, and so does the optimizer. Returns
    (state, a sentence with the number of arrays copied); raises ValueError if there are none.
    """
    config = WorkDir(workdir).load_config()
    checkpoints = open_for_reading(workdir, config)
    loaded = checkpoints.load("default", config.decoding.average_checkpoints)
    theirs = dict(jax.tree_util.tree_leaves_with_path(loaded.params))
    copied = []

    def choose(path: tuple[Any, ...], ours: jax.Array) -> jax.Array:
        found = theirs.get(path)
        if found is None or found.shape != ours.shape:
            return ours
        copied.append(path)
        return jax.device_put(found.astype(ours.dtype), ours.sharding)

    params = jax.tree_util.tree_map_with_path(choose, state.params)
    num_ours = len(jax.tree.leaves(state.params))
    if not copied:
        raise ValueError(
            f"{workdir} has no weight of the same name and shape; nothing to start from."
        )
    note = f"warm start: {len(copied)} of {num_ours} arrays from {workdir}, the others fresh"
    return state.replace(params=params), note
