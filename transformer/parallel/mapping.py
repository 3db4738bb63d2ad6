"""Maps the pure steps of training over a mesh of devices, data × fsdp × tensor, in one of two ways.

"sharded" jits a step that sees the whole batch and lets the compiler insert the reductions;
"pmap" gives each device its rows and all parameters, and the step reduces by itself, as under
`jax.pmap`; it is made with `jax.shard_map`, of which JAX makes that function, too. Both pad a batch
with empty rows until every device gets the same number, so the rows trained on are always the same.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import KeyPath

from transformer.config import Config

Tree = TypeVar("Tree")  # a pytree of arrays
Step = Callable[..., Any]  # (state, batch) -> (state, sums), or sums alone

AXES = ("data", "fsdp", "tensor")
ROW_AXES = ("data", "fsdp")  # over which the rows of a batch are divided

# The axes over which the dimensions of a parameter are divided, by the end of its path.
_WIDE = ("query", "key", "value", "inner", "gate")  # [D, N·H] or [D, F]
PARAMETER_AXES: dict[tuple[str, ...], tuple[str, ...]] = {
    **{(name, "kernel"): ("fsdp", "tensor") for name in _WIDE},
    **{(name, "bias"): ("tensor",) for name in _WIDE},
    ("output", "kernel"): ("tensor", "fsdp"),  # [N·H, D]
    ("outer", "kernel"): ("tensor", "fsdp"),  # [F, D]
    ("table",): ("tensor", "fsdp"),  # [V, D]
}
# The same for an activation, by the names that the model gives its dimensions.
ACTIVATION_AXES = (("batch", ROW_AXES), ("heads", "tensor"), ("mlp", "tensor"))


def make_parallel(config: Config, devices: Sequence[jax.Device] | None = None) -> "Parallel":
    """Returns the mapping over `devices` (None: all) that a configuration asks for.

    An axis of -1 gets the devices that are left: of 8, data = -1, fsdp = 2, tensor = 1 gives data
    4. Raises ValueError if the mesh does not fit the number of devices or the sizes of the model.
    """
    devices = list(jax.devices() if devices is None else devices)
    wanted = {axis: getattr(config.mesh, axis) for axis in AXES}
    rest = len(devices) // math.prod(size for size in wanted.values() if size > 0)
    shape = {axis: rest if size == -1 else size for axis, size in wanted.items()}
    if math.prod(shape.values()) != len(devices):
        product = " × ".join(f"mesh.{axis} {size}" for axis, size in wanted.items())
        raise ValueError(
            f"{product} does not make the {len(devices)} devices of this run; set one of them to "
            f"-1, the devices that are left."
        )
    for name, axis in {"num_heads": "tensor", "d_ff": "tensor", "d_model": "fsdp"}.items():
        if (size := getattr(config.model, name)) % shape[axis]:
            raise ValueError(
                f"mesh.{axis} ({shape[axis]}) must divide model.{name} ({size}); change one."
            )
    return Parallel(devices, tuple(shape.values()), is_pmapped=config.parallelism == "pmap")


class Parallel:
    """How steps, states and batches lie on devices, a mesh of `shape`.

    is_pmapped: whether each device computes with all parameters and its rows alone.
    """

    def __init__(
        self, devices: Sequence[jax.Device], shape: tuple[int, ...], *, is_pmapped: bool
    ) -> None:
        grid = np.array(devices).reshape(shape)
        if devices[0].platform == "tpu":
            # Neighbours share a link. An axis may be a part of one of the slice, as 2 of 4 × 4.
            grid = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        self.mesh, self._is_pmapped = Mesh(grid, AXES), is_pmapped
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.by_row = NamedSharding(self.mesh, PartitionSpec(ROW_AXES))
        self.num_row_shards = math.prod(self.mesh.shape[axis] for axis in ROW_AXES)
        self._replicate = jax.jit(lambda tree: tree, out_shardings=self.replicated)
        self._sum = jax.jit(jnp.sum, out_shardings=self.replicated)

    def describe(self) -> str:
        """Returns the mapping in words."""
        if self._is_pmapped:
            return f"pmapped over {self.mesh.size} devices"
        sizes = " × ".join(f"{axis} {size}" for axis, size in self.mesh.shape.items())
        return f"sharded over {sizes}"

    def map_step(
        self, make_step: Callable[[str | None], Step], state: Any = None
    ) -> jax.stages.Wrapped:
        """Returns the compiled step(state, batch).

        make_step: called with the name of the axis that the step has to reduce over, None if the
        compiler does it. state: its abstract arrays, as `abstract` returns them, for a step that
        returns (new state, sums) and on an accelerator reuses the memory of the old one; None for a
        step that returns sums only.
        """
        if self._is_pmapped:
            in_specs = PartitionSpec(), self.by_row.spec
            specs = dict(in_specs=in_specs, out_specs=PartitionSpec(), check_vma=False)
            step = jax.shard_map(make_step("data"), mesh=self.mesh, **specs)
        else:
            whole_step = make_step(None)

            @functools.wraps(whole_step)
            def step(*args: Any) -> Any:
                # The names that the model gives to axes mean axes of the mesh.
                mesh = jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh)
                with mesh, nn.logical_axis_rules(ACTIVATION_AXES):
                    return whole_step(*args)

        shardings = state and jax.tree.map(lambda x: x.sharding, state)
        # On a CPU a step that may overwrite its state takes a fifth longer: XLA works around it.
        may_donate = state and self.mesh.devices.flat[0].platform != "cpu"
        return jax.jit(
            step,
            in_shardings=(shardings, self.by_row),
            out_shardings=(shardings, self.replicated) if state else self.replicated,
            donate_argnums=0 if may_donate else (),
        )

    def padded_num_rows(self, num_rows: int, num_parts: int = 1) -> int:
        """Returns `num_rows` rounded up so that they divide evenly over devices and parts."""
        unit = self.num_row_shards * num_parts
        return -(-num_rows // unit) * unit

    def put_batch(self, batch: Tree, num_parts: int = 1) -> Tree:
        """Puts a batch of numpy arrays on the devices, padded to `padded_num_rows`, split by row.

        num_parts: in how many parts, one after the other, a step computes its gradients.
        """

        def put(x: np.ndarray) -> jax.Array:
            padding = self.padded_num_rows(len(x), num_parts) - len(x)
            x = np.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1))
            return jax.make_array_from_callback(x.shape, self.by_row, x.__getitem__)

        return jax.tree.map(put, batch)

    def abstract_batch(self, batch: Tree, num_parts: int = 1) -> Tree:
        """Returns the shapes and shardings of what `put_batch` returns; no device gets data."""

        def shape_of(x: np.ndarray) -> jax.ShapeDtypeStruct:
            shape = self.padded_num_rows(len(x), num_parts), *x.shape[1:]
            return jax.ShapeDtypeStruct(shape, x.dtype, sharding=self.by_row)

        return jax.tree.map(shape_of, batch)

    def rows_of_host(self, num_rows: int) -> tuple[int, int]:
        """Returns the first row of a batch that this host's devices take, and that after the last.

        Rows that lie between those of two devices of the host are among them. Of 8 rows over 4
        devices, the second of two hosts has the devices 2 and 3, and the rows (4, 8).
        """
        shards = self.by_row.addressable_devices_indices_map((num_rows,)).values()
        bounds = [index[0].indices(num_rows) for index in shards if index]
        return min(bound[0] for bound in bounds), max(bound[1] for bound in bounds)

    def abstract(self, init_fn: Callable[[], Tree]) -> Tree:
        """Returns the shapes, types and shardings of what `init` returns; nothing is computed."""

        def abstract(path: KeyPath, x: Any) -> jax.ShapeDtypeStruct:
            spec = partition_spec_of(path, x.shape, self.mesh.shape)
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(self.mesh, spec))

        return jax.tree_util.tree_map_with_path(abstract, jax.eval_shape(init_fn))

    def init(self, init_fn: Callable[[], Tree]) -> Tree:
        """Computes init_fn() with each array where it belongs; the same numbers on any mesh."""
        shardings = jax.tree.map(lambda x: x.sharding, self.abstract(init_fn))
        return jax.jit(init_fn, out_shardings=shardings)()

    def copy_to_one_device(self, tree: Tree) -> Tree:
        """Copies the whole tree to this host's first device, for work that is not mapped."""
        if not all(leaf.is_fully_replicated for leaf in jax.tree.leaves(tree)):
            tree = self._replicate(tree)
        return jax.tree.map(lambda x: x.addressable_data(0), tree)

    def sum_over_hosts(self, number: float) -> jax.Array:
        """Returns an array with the sum of every host's `number`, without waiting for it."""
        by_device = NamedSharding(self.mesh, PartitionSpec(AXES))
        mine = np.full(1, number / len(jax.local_devices()), np.float32)
        return self._sum(jax.make_array_from_callback((self.mesh.size,), by_device, lambda _: mine))

    def bytes_per_device(self, tree: Any) -> int:
        """Returns the memory of arrays, or of abstract ones, on the fullest device."""
        return sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )


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
