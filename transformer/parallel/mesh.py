"""The mesh of devices, data × fsdp × tensor, and which arrays are divided over which axes of it."""

import math
from collections.abc import Mapping

from jax.sharding import NamedSharding, PartitionSpec
from jax.tree_util import KeyPath

from transformer.config import MeshConfig

AXES = ("data", "fsdp", "tensor")
ROW_AXES = ("data", "fsdp")  # over which the rows of a batch are divided

# The axes over which the dimensions of a parameter are divided, by the end of its path.
PARAMETER_AXES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("query", "kernel"): ("fsdp", "tensor"),  # [D, N·H]
    ("key", "kernel"): ("fsdp", "tensor"),
    ("value", "kernel"): ("fsdp", "tensor"),
    ("output", "kernel"): ("tensor", "fsdp"),  # [N·H, D]
    ("inner", "kernel"): ("fsdp", "tensor"),  # [D, F]
    ("inner", "bias"): ("tensor",),
    ("gate", "kernel"): ("fsdp", "tensor"),  # [D, F]
    ("gate", "bias"): ("tensor",),
    ("query", "bias"): ("tensor",),
    ("key", "bias"): ("tensor",),
    ("value", "bias"): ("tensor",),
    ("outer", "kernel"): ("tensor", "fsdp"),  # [F, D]
    ("table",): ("tensor", "fsdp"),  # [V, D]
}
# The same for an activation, by the names that the model gives its dimensions.
ACTIVATION_AXES = (("batch", ROW_AXES), ("heads", "tensor"), ("mlp", "tensor"))


def mesh_shape(mesh: MeshConfig, num_devices: int) -> dict[str, int]:
    """Returns {axis: number of devices}, with -1 replaced by the number that is left.

    On 8 devices, data = -1, fsdp = 2, tensor = 1 gives data 4. Raises ValueError if the product is
    not `num_devices`.
    """
    shape = {axis: getattr(mesh, axis) for axis in AXES}
    given = math.prod(size for size in shape.values() if size > 0)
    for axis, size in shape.items():
        if size == -1 and num_devices % given == 0:
            shape[axis] = num_devices // given
    if math.prod(shape.values()) != num_devices:
        wanted = " × ".join(f"mesh.{axis} {size}" for axis, size in shape.items())
        raise ValueError(
            f"{wanted} does not make the {num_devices} devices of this run; set one of them "
            f"to -1, the devices that are left."
        )
    return shape


def partition_spec_of(
    path: KeyPath, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> PartitionSpec:
    """Returns how an array of a TrainState is divided over the mesh, by the end of its path.

    sizes: {axis: number of devices}. A dimension that its axis does not divide stays whole; so do
    Adafactor's vectors of rows and of columns, which take a thousandth of their matrix.
    """
    names = tuple(str(getattr(key, "key", getattr(key, "name", ""))) for key in path)
    axes = PARAMETER_AXES.get(names[-2:]) or PARAMETER_AXES.get(names[-1:]) or ()
    if len(axes) != len(shape):
        return PartitionSpec()
    return PartitionSpec(
        *(axis if size % sizes[axis] == 0 else None for axis, size in zip(axes, shape, strict=True))
    )


def rows_of_host(by_row: NamedSharding, num_shards: int, num_rows: int) -> tuple[int, int]:
    """Returns the first row of a batch that this host's devices take, and the one after the last.

    by_row: how rows are split, into `num_shards` shards. Rows that lie between those of two devices
    of the host are among them. Of 8 rows over 4 devices, the second of two hosts has the devices 2
    and 3, and the rows (4, 8).
    """
    shards = by_row.addressable_devices_indices_map((num_shards,)).values()
    bounds = [index[0].indices(num_shards) for index in shards if index]
    rows_per_shard = num_rows // num_shards
    first, last = min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)
    return first * rows_per_shard, last * rows_per_shard
