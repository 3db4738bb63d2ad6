"""Maps the pure steps of training over a mesh of devices, data × fsdp × tensor.

Each replica, an index of the axis data, computes the gradient of its own rows with all parameters;
within a replica the compiler divides the work over fsdp and tensor. What is kept between steps,
parameters in float32 and the optimizer's state, is divided over the replicas as well: they gather
the parameters once a step, and each updates its share of them (Xu et al. 2020, arXiv 2004.13336).
With "pmap" every device keeps and updates all of it, as under `jax.pmap`.

A batch is padded with empty rows until every device gets the same number, so the rows trained on
are always the same.
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
# (trained, frozen, batch, rng) -> (gradients of trained, sums); both are sums over the rows
Gradients = Callable[[Any, Any, Any, Any], tuple[Any, Any]]

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
# The same for an activation of a replica, by the names that the model gives its dimensions.
ACTIVATION_AXES = (("batch", "fsdp"), ("heads", "tensor"), ("mlp", "tensor"))


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

    is_pmapped: whether each device keeps all parameters and the whole state of the optimizer.
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
        # Where replicas are single devices, nothing is left to the compiler to divide.
        self._is_data_parallel = self.mesh.size == self.mesh.shape["data"] > 1

    def describe(self) -> str:
        """Returns the mapping in words."""
        if self._is_pmapped:
            return f"pmapped over {self.mesh.size} devices"
        sizes = " × ".join(f"{axis} {size}" for axis, size in self.mesh.shape.items())
        return f"sharded over {sizes}"

    def map_step(
        self, make_step: Callable[[Callable[..., Gradients]], Step], state: Any = None
    ) -> jax.stages.Wrapped:
        """Returns the compiled step(state, batch).

        make_step: called with `over_replicas`. state: its abstract arrays, as `abstract` returns
        them, for a step that returns (new state, sums) and on an accelerator reuses the memory of
        the old one; None for a step that returns sums only.
        """
        whole_step = make_step(self.over_replicas)

        @functools.wraps(whole_step)
        def step(*args: Any) -> Any:
            # The names that the model gives to axes mean axes of the mesh.
            mesh = jax.sharding.use_abstract_mesh(self.mesh.abstract_mesh)
            with mesh, nn.logical_axis_rules(() if self._is_data_parallel else ACTIVATION_AXES):
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

    def over_replicas(
        self, compute: Gradients, cast: Callable[[Tree], Tree] = lambda tree: tree
    ) -> Gradients:
        """Returns `compute` of a whole batch: each replica computes with its rows, and they add up.

        It takes and returns shares of parameters and gradients. They are gathered in the types that
        `cast` gives them, and the gradients are added up in the same types.
        """
        if self.mesh.shape["data"] == 1:
            return compute
        # XLA for CPUs aborts on sums in bfloat16 where the compiler divides a replica.
        is_cpu = self.mesh.devices.flat[0].platform == "cpu"
        is_cast = not self._is_pmapped and (self._is_data_parallel or not is_cpu)

        def compute_in_all(trained: Any, frozen: Any, batch: Any, rng: Any) -> tuple[Any, Any]:
            divided = [jax.tree_util.tree_map_with_path(self._share, x) for x in (trained, frozen)]

            def compute_in_one(shares: Any, rows: Any, rng: Any) -> tuple[Any, Any]:
                if is_cast:
                    shares = [cast(share) for share in shares]
                trained, frozen = jax.tree.map(_gather, shares, divided)
                gradients, sums = compute(trained, frozen, rows, rng)
                gradients = jax.tree.map(_add_up, gradients, trained, divided[0])
                return gradients, jax.lax.psum(sums, "data")

            return jax.shard_map(
                compute_in_one,
                in_specs=(divided, PartitionSpec("data"), PartitionSpec()),
                out_specs=(divided[0], PartitionSpec()),
                axis_names={*AXES} if self._is_data_parallel else {"data"},
                check_vma=False,
            )([trained, frozen], batch, rng)

        return compute_in_all

    def _share(self, path: KeyPath, array: jax.Array) -> PartitionSpec:
        """Returns how an array is divided over the replicas alone."""
        axes = self._spec_of(path, array.shape)
        return PartitionSpec(*("data" if "data" in (axis or ()) else None for axis in axes))

    def _spec_of(self, path: KeyPath, shape: tuple[int, ...]) -> PartitionSpec:
        return partition_spec_of(path, shape, self.mesh.shape, is_shared=not self._is_pmapped)

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
            spec = self._spec_of(path, x.shape)
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
    path: KeyPath, shape: tuple[int, ...], sizes: Mapping[str, int], *, is_shared: bool = True
) -> PartitionSpec:
    """Returns how an array of a TrainState is divided over the mesh, by the end of its path.

    sizes: {axis: number of devices}. A dimension that its axis does not divide stays whole; so do
    Adafactor's vectors of rows and of columns, which take a thousandth of their matrix. is_shared:
    whether matrices are divided over the axis data too, in the first dimension that it divides.

    On a mesh of data 4, fsdp 2 and tensor 1 a matrix of 512 × 2048 becomes 64 × 2048 with the spec
    (("data", "fsdp"), "tensor"), and one of 12 × 2048 becomes 6 × 512.
    """
    names = tuple(str(getattr(key, "key", getattr(key, "name", ""))) for key in path)
    known = PARAMETER_AXES.get(names[-2:]) or PARAMETER_AXES.get(names[-1:]) or ()
    if len(known) != len(shape):
        return PartitionSpec()
    pairs = [*zip(known, shape, strict=True)]
    axes: list[Any] = [axis if size % sizes[axis] == 0 else None for axis, size in pairs]
    if is_shared and sizes["data"] > 1 and len(shape) > 1:
        parts = [sizes["data"] * (sizes[axis] if axis else 1) for axis in axes]
        divisible = [d for d, size in enumerate(shape) if size % parts[d] == 0]
        for dimension in divisible[:1]:
            axis = axes[dimension]
            axes[dimension] = ("data", axis) if axis else ("data",)
    return PartitionSpec(*axes)


def _gather(share: jax.Array, divided: PartitionSpec) -> jax.Array:
    """Returns the whole array of which each replica has a share."""
    if "data" not in divided:
        return share
    return jax.lax.all_gather(share, "data", axis=divided.index("data"), tiled=True)


def _add_up(gradient: jax.Array, parameter: jax.Array, divided: PartitionSpec) -> jax.Array:
    """Returns the share of the sum of all replicas' gradients, added up in the parameter's type."""
    if "data" not in divided:
        return jax.lax.psum(gradient, "data")
    typed = gradient.astype(parameter.dtype)
    total = jax.lax.psum_scatter(typed, "data", scatter_dimension=divided.index("data"), tiled=True)
    return total.astype(gradient.dtype)
