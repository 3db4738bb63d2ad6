"""Devices, mesh and placement: the two ways to map the pure steps of `training` over what is there.

`Sharded` (the default) jits a step over a mesh of data × fsdp × tensor and lets the compiler insert
the reductions; `Pmapped` maps it with `jax.pmap` over replicated parameters. Both add empty rows
to a batch until it can be dealt out, so that the same rows are trained on any number of devices.
"""

import math
from contextlib import contextmanager

import jax
import numpy as np
from flax import linen as nn
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from transformer.parallel.mesh import ACTIVATIONS, AXES, ROWS, mesh_shape, partition_spec_of


def make_parallel(config, devices=None):
    """`Sharded` or `Pmapped` as the configuration says, over `devices` (None: all there are)."""
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


class Parallel:
    """What both ways share. mesh: of devices; rows: the axes over which rows are dealt out."""

    def __init__(self, mesh, rows):
        self.mesh = mesh
        self.replicated = NamedSharding(mesh, PartitionSpec())
        self.by_row = NamedSharding(mesh, PartitionSpec(rows))
        self.num_row_shards = math.prod(mesh.shape[axis] for axis in rows)
        # A CPU's step that may overwrite its state takes a fifth longer: XLA works around it.
        self._may_donate = mesh.devices.flat[0].platform != "cpu"

    def padded_num_rows(self, rows, parts=1):
        """`rows`, and the empty ones that deal them out evenly over devices and `parts`."""
        unit = self.num_row_shards * parts
        return -(-rows // unit) * unit

    def put_batch(self, batch, parts=1):
        """A batch of numpy arrays, padded to `padded_num_rows` -> on the devices, split by row."""

        def put(x):
            padding = self.padded_num_rows(len(x), parts) - len(x)
            x = self._arrange(np.pad(x, [(0, padding)] + [(0, 0)] * (x.ndim - 1)))
            return jax.make_array_from_callback(x.shape, self.by_row, x.__getitem__)

        return jax.tree.map(put, batch)

    def _arrange(self, x):
        return x

    def abstract_batch(self, batch, parts=1):
        """Shapes and places of `put_batch`, without any data on any device."""

        def shape_of(x):
            rows = np.broadcast_to(np.int8(0), (self.padded_num_rows(len(x), parts), *x.shape[1:]))
            shape = self._arrange(rows).shape
            return jax.ShapeDtypeStruct(shape, x.dtype, sharding=self.by_row)

        return jax.tree.map(shape_of, batch)

    def abstract(self, init_fn):
        """Shapes, types and places of what `init` makes, without making it."""
        return jax.tree_util.tree_map_with_path(
            lambda path, x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=self._place(path, x)),
            jax.eval_shape(init_fn),
        )

    def init(self, init_fn):
        """init_fn() computed where its arrays belong; the same numbers on any mesh."""
        places = jax.tree.map(lambda x: x.sharding, self.abstract(init_fn))
        return jax.jit(init_fn, out_shardings=places)()

    def _place(self, path, leaf):
        return self.replicated

    def copy_to_one_device(self, tree):
        """The whole tree on this host's first device, for work that is not mapped."""
        if not all(leaf.is_fully_replicated for leaf in jax.tree.leaves(tree)):
            tree = jax.jit(_same, out_shardings=self.replicated)(tree)
        return jax.tree.map(lambda x: x.addressable_data(0), tree)

    def sum_over_hosts(self, number):
        """An array that will hold the sum of every host's `number`; nobody waits for it here."""
        devices = Mesh(self.mesh.devices.ravel(), ("devices",))
        by_device = NamedSharding(devices, PartitionSpec("devices"))
        mine = np.full(1, number / len(jax.local_devices()), np.float32)
        spread = jax.make_array_from_callback((devices.size,), by_device, lambda _: mine)
        return jax.jit(_sum, out_shardings=NamedSharding(devices, PartitionSpec()))(spread)

    def bytes_per_device(self, tree):
        """Of arrays or their abstract shapes, on the fullest device."""
        return sum(
            math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
            for leaf in jax.tree.leaves(tree)
        )


def _same(tree):
    return tree


def _sum(x):
    return x.sum()


class Sharded(Parallel):
    """jit over a mesh data × fsdp × tensor; parameters lie as `PLACES` says."""

    def __init__(self, devices, shape):
        if devices[0].platform == "tpu":
            devices = mesh_utils.create_device_mesh(shape, devices)  # neighbours share a link
        super().__init__(Mesh(np.array(devices).reshape(shape), AXES), ROWS)

    def describe(self):
        """The mesh in words."""
        sizes = " × ".join(f"{axis} {size}" for axis, size in self.mesh.shape.items())
        return f"sharded over {sizes}"

    def _place(self, path, leaf):
        return NamedSharding(self.mesh, partition_spec_of(path, leaf.shape, self.mesh.shape))

    def map_step(self, make_step, state=None):
        """make_step(axis_name) -> the compiled step(state, batch).

        state: as `abstract` gives it, of a step that returns (a new state, sums) and on an
        accelerator takes over the old one's memory; None for a step that returns sums only.
        """
        places = state and jax.tree.map(lambda x: x.sharding, state)
        return _Within(
            self._naming,
            jax.jit(
                make_step(None),
                in_shardings=(places, self.by_row),
                out_shardings=(places, self.replicated) if state else self.replicated,
                donate_argnums=0 if state and self._may_donate else (),
            ),
        )

    @contextmanager
    def _naming(self):
        """In here the model's names of axes mean axes of the mesh."""
        with jax.set_mesh(self.mesh), nn.logical_axis_rules(ACTIVATIONS):
            yield


class Pmapped(Parallel):
    """`jax.pmap` with all parameters on every device: the plain data-parallel way."""

    def __init__(self, devices):
        super().__init__(Mesh(np.array(devices), ("devices",)), ("devices",))

    def describe(self):
        """The mapping in words."""
        return f"pmapped over {self.mesh.size} devices"

    def _arrange(self, x):
        """[B, …] -> [devices, B / devices, …], as pmap wants it."""
        return x.reshape(self.mesh.size, -1, *x.shape[1:])

    def map_step(self, make_step, state=None):
        """As `Sharded.map_step`; the step reduces over the axis that it is told."""
        mapped = jax.pmap(
            make_step("devices"),
            axis_name="devices",
            devices=self.mesh.devices.tolist(),
            in_axes=(None, 0),
            out_axes=None,
            donate_argnums=0 if state and self._may_donate else (),
        )
        if jax.process_count() == 1:
            return mapped
        return lambda *args: jax.tree.map(self._of_all_hosts, mapped(*args))

    def _of_all_hosts(self, x):
        """On several hosts pmap returns what lies on this one; the same, as part of the whole."""
        shards = [shard.data for shard in x.addressable_shards]
        return jax.make_array_from_single_device_arrays(x.shape, self.replicated, shards)


class _Within:
    """A jitted function that is traced, lowered and called within a context."""

    def __init__(self, context, jitted):
        self._context, self._jitted = context, jitted

    def __call__(self, *args):
        with self._context():
            return self._jitted(*args)

    def lower(self, *args):
        with self._context():
            return self._jitted.lower(*args)
