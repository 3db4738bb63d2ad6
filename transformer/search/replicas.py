"""Replicas: each device searches sentences of its own with a full copy of the parameters."""

from collections.abc import Sequence
from typing import TypeVar

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

REPLICA = "replica"  # the only axis of the mesh

Tree = TypeVar("Tree")  # a pytree of arrays


def make_replicas(devices: Sequence[jax.Device]) -> Mesh:
    """Returns a mesh with one axis, on which every device is a replica of the model."""
    return Mesh(np.array(devices), (REPLICA,))


def replicate(replicas: Mesh, tree: Tree) -> Tree:
    """Copies all arrays of `tree` to every device."""
    return jax.device_put(tree, NamedSharding(replicas, PartitionSpec()))


def split_rows(replicas: Mesh, tree: Tree) -> Tree:
    """Puts arrays [replicas · rows, …] onto the devices, the same number of rows on each."""
    return jax.device_put(tree, NamedSharding(replicas, PartitionSpec(REPLICA)))
