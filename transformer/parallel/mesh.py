"""The mesh of devices, data × fsdp × tensor, and which of its axes share what."""

import math

from jax.sharding import PartitionSpec

AXES = ("data", "fsdp", "tensor")
ROWS = ("data", "fsdp")  # the axes over which the rows of a batch are dealt out

# Which axes share a parameter, by the end of its path.
PLACES = {
    ("query", "kernel"): ("fsdp", "tensor"),  # [D, N·H]
    ("key", "kernel"): ("fsdp", "tensor"),
    ("value", "kernel"): ("fsdp", "tensor"),
    ("output", "kernel"): ("tensor", "fsdp"),  # [N·H, D]
    ("inner", "kernel"): ("fsdp", "tensor"),  # [D, F]
    ("inner", "bias"): ("tensor",),
    ("outer", "kernel"): ("tensor", "fsdp"),  # [F, D]
    ("table",): ("tensor", "fsdp"),  # [V, D]
}
# And which share an activation, by the names that the model gives its axes.
ACTIVATIONS = (("batch", ROWS), ("heads", "tensor"), ("mlp", "tensor"))


def mesh_shape(settings, num_devices):
    """{axis: size}, with -1 replaced by the devices that are left; ValueError if that fails."""
    shape = {axis: getattr(settings, axis) for axis in AXES}
    given = math.prod(size for size in shape.values() if size > 0)
    for axis, size in shape.items():
        if size == -1 and num_devices % given == 0:
            shape[axis] = num_devices // given
    if math.prod(shape.values()) != num_devices:
        wanted = " × ".join(f"mesh.{axis} {size}" for axis, size in shape.items())
        raise ValueError(
            f"{wanted} does not make the {num_devices} devices that are there; set one of them "
            f"to -1, the devices that are left."
        )
    return shape


def partition_spec_of(path, shape, sizes):
    """How an array of a TrainState lies on the mesh: by the end of its path in the tree.

    sizes: {axis: number of devices}. A dimension that its axis does not divide stays whole.
    """
    names = tuple(getattr(key, "key", getattr(key, "name", None)) for key in path)
    axes = PLACES.get(names[-2:]) or PLACES.get(names[-1:]) or ()
    return PartitionSpec(
        *(
            axis if size % sizes[axis] == 0 else None
            for axis, size in zip(axes, shape, strict=False)
        )
    )
