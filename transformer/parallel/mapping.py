"""Maps the pure steps of training over devices, in one of two ways.

`Sharded` (the default) jits a step over a mesh of data × fsdp × tensor and lets the compiler insert
the reductions; `Pmapped` maps it with `jax.pmap` over replicated parameters. Both pad a batch with
empty rows until every device gets the same number, so the rows trained on are always the same.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.tree_util import KeyPath

from transformer.config import Config, MeshConfig

Tree = TypeVar("Tree")  # a pytree of arrays
Step = Callable[..., Any]  # (state, batch) -> (state, sums), or sums alone


def make_parallel(config: Config, devices: Sequence[jax.Device] | None = None) -> "Parallel":
    """Returns `Sharded` or `Pmapped` by `config.parallelism`, over `devices` (None: all).

    Raises ValueError if the mesh does not fit the number of devices or the sizes of the model.
    """
    devices = list(jax.devices() if devices is None else devices)
    shape = mesh_shape(config.mesh, len(devices))
    for name, size, axis in (
        ("model.num_heads", config.model.num_heads, "tensor"),
        ("model.d_ff", config.model.d_ff, "tensor"),
        ("model.d_model", config.model.d_model, "fsdp"),
    ):
        if size % shape[axis]:
            raise ValueError(
                f"mesh.{axis} ({shape[axis]}) must divide {name} ({size}); change one of them."
            )
    if config.parallelism == "pmap":
        return Pmapped(devices)
    return Sharded(devices, tuple(shape.values()))


class MappedStep:
    """A compiled step, which is traced, lowered and called within a context."""

    def __init__(
        self,
        compiled: Any,  # made by jax.jit or jax.pmap
        context: Callable[[], AbstractContextManager[None]] = nullcontext,
        convert: Callable[[Any], Any] | None = None,  # applied to its results
    ) -> None:
        self._compiled, self._context, self._convert = compiled, context, convert

    def __call__(self, *args: Any) -> Any:
        with self._context():
            results = self._compiled(*args)
        return self._convert(results) if self._convert else results

    def lower(self, *args: Any) -> jax.stages.Lowered:
        """Returns the step lowered for arguments of these shapes; nothing is computed."""
        with self._context():
            return self._compiled.lower(*args)


class Parallel(ABC):
    """What both ways share. row_axes: the axes of the mesh over which rows are split."""

    def __init__(self, mesh: Mesh, row_axes: tuple[str, ...]) -> None:
        self.mesh = mesh
        self.replicated = NamedSharding(mesh, PartitionSpec())
        self.by_row = NamedSharding(mesh, PartitionSpec(row_axes))
        self.num_row_shards = math.prod(mesh.shape[axis] for axis in row_axes)
        # On a CPU a step that may overwrite its state takes a fifth longer: XLA works around it.
        self._may_donate = mesh.devices.flat[0].platform != "cpu"

    @abstractmethod
    def describe(self) -> str:
        """Returns the mapping in words."""

    @abstractmethod
    def map_step(self, make_step: Callable[[str | None], Step], state: Any = None) -> MappedStep:
        """Returns the compiled step(state, batch).

        make_step: called with the name of the axis that the step has to reduce over, None if the
        compiler does it. state: its abstract arrays, as `abstract` returns them, for a step that
        returns (new state, sums) and on an accelerator reuses the memory of the old one; None for a
        step that returns sums only.
        """

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
            x = self._arrange(np.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1)))
            return jax.make_array_from_callback(x.shape, self.by_row, x.__getitem__)

        return jax.tree.map(put, batch)

    def _arrange(self, x: np.ndarray) -> np.ndarray:
        """Returns padded rows in the shape that the step takes."""
        return x

    def abstract_batch(self, batch: Tree, num_parts: int = 1) -> Tree:
        """Returns the shapes and shardings of what `put_batch` returns; no device gets data."""

        def shape_of(x: np.ndarray) -> jax.ShapeDtypeStruct:
            num_rows = self.padded_num_rows(len(x), num_parts)
            shape = self._arrange(np.broadcast_to(np.int8(0), (num_rows, *x.shape[1:]))).shape
            return jax.ShapeDtypeStruct(shape, x.dtype, sharding=self.by_row)

        return jax.tree.map(shape_of, batch)

    def abstract(self, init_fn: Callable[[], Tree]) -> Tree:
        """Returns the shapes, types and shardings of what `init` returns; nothing is computed."""

        def abstract(path: jax.tree_util.KeyPath, x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._sharding_of(path, x))

        return jax.tree_util.tree_map_with_path(abstract, jax.eval_shape(init_fn))

    def init(self, init_fn: Callable[[], Tree]) -> Tree:
        """Computes init_fn() with each array where it belongs; the same numbers on any mesh."""
        shardings = jax.tree.map(lambda x: x.sharding, self.abstract(init_fn))
        return jax.jit(init_fn, out_shardings=shardings)()

    def _sharding_of(self, path: jax.tree_util.KeyPath, leaf: Any) -> NamedSharding:
        return self.replicated

    def copy_to_one_device(self, tree: Tree) -> Tree:
        """Copies the whole tree to this host's first device, for work that is not mapped."""
        if not all(leaf.is_fully_replicated for leaf in jax.tree.leaves(tree)):
            tree = jax.jit(_identity, out_shardings=self.replicated)(tree)
        return jax.tree.map(lambda x: x.addressable_data(0), tree)

    def sum_over_hosts(self, number: float) -> jax.Array:
        """Returns an array with the sum of every host's `number`, without waiting for it."""
        by_device, add = self._sum_over_devices
        mine = np.full(1, number / len(jax.local_devices()), np.float32)
        return add(jax.make_array_from_callback((self.mesh.size,), by_device, lambda _: mine))

    @functools.cached_property
    def _sum_over_devices(self) -> tuple[NamedSharding, Callable[[jax.Array], jax.Array]]:
        """How an array [devices] lies with a number on each device, and the sum of such a one."""
        devices = Mesh(self.mesh.devices.ravel(), ("devices",))
        by_device = NamedSharding(devices, PartitionSpec("devices"))
        return by_device, jax.jit(jnp.sum, out_shardings=NamedSharding(devices, PartitionSpec()))

    def bytes_per_device(self, tree: Any) -> int:
        """Returns the memory of arrays, or of abstract ones, on the fullest device."""
        return sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )


def _identity(tree: Tree) -> Tree:  # not a lambda: it is compiled once
    return tree


class Sharded(Parallel):
    """jit over a mesh data × fsdp × tensor; `partition_spec_of` says where parameters lie."""

    def __init__(self, devices: Sequence[jax.Device], shape: tuple[int, ...]) -> None:
        grid = np.array(devices).reshape(shape)
        if devices[0].platform == "tpu":
            # Neighbours share a link. An axis may be a part of one of the slice, as 2 of 4 × 4.
            grid = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
        super().__init__(Mesh(grid, AXES), ROW_AXES)

    def describe(self) -> str:
        sizes = " × ".join(f"{axis} {size}" for axis, size in self.mesh.shape.items())
        return f"sharded over {sizes}"

    def _sharding_of(self, path: jax.tree_util.KeyPath, leaf: Any) -> NamedSharding:
        return NamedSharding(self.mesh, partition_spec_of(path, leaf.shape, self.mesh.shape))

    def map_step(self, make_step: Callable[[str | None], Step], state: Any = None) -> MappedStep:
        shardings = state and jax.tree.map(lambda x: x.sharding, state)
        compiled = jax.jit(
            make_step(None),
            in_shardings=(shardings, self.by_row),
            out_shardings=(shardings, self.replicated) if state else self.replicated,
            donate_argnums=0 if state and self._may_donate else (),
        )
        return MappedStep(compiled, self._named_axes)

    @contextmanager
    def _named_axes(self) -> Iterator[None]:
        """Makes the names that the model gives to axes mean axes of the mesh."""
        with jax.set_mesh(self.mesh), nn.logical_axis_rules(ACTIVATION_AXES):
            yield


class Pmapped(Parallel):
    """`jax.pmap` with all parameters on every device: plain data parallelism."""

    def __init__(self, devices: Sequence[jax.Device]) -> None:
        super().__init__(Mesh(np.array(devices), ("devices",)), ("devices",))

    def describe(self) -> str:
        return f"pmapped over {self.mesh.size} devices"

    def _arrange(self, x: np.ndarray) -> np.ndarray:
        """Reshapes [B, …] to [devices, B / devices, …], as pmap wants it."""
        return x.reshape(self.mesh.size, -1, *x.shape[1:])

    def map_step(self, make_step: Callable[[str | None], Step], state: Any = None) -> MappedStep:
        compiled = jax.pmap(
            make_step("devices"),
            axis_name="devices",
            devices=self.mesh.devices.tolist(),
            in_axes=(None, 0),
            out_axes=None,
            donate_argnums=0 if state and self._may_donate else (),
        )
        if jax.process_count() == 1:
            return MappedStep(compiled)
        return MappedStep(compiled, convert=lambda tree: jax.tree.map(self._globalise, tree))

    def _globalise(self, x: jax.Array) -> jax.Array:
        """Returns what pmap returned on this host as part of an array of all hosts."""
        shards = [shard.data for shard in x.addressable_shards]
        return jax.make_array_from_single_device_arrays(x.shape, self.replicated, shards)


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
