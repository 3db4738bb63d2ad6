"""Devices, mesh and placement: how the pure steps of `training` are mapped over what is there."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


class DataParallel:
    """One mesh axis, `data`: parameters on every device, the rows of a batch dealt out to them.

    The same code serves one device and many: `jit` sees global arrays and inserts the reductions.
    """

    def __init__(self, devices=None):
        self.mesh = Mesh(np.array(devices or jax.devices()), ("data",))
        self.replicated = NamedSharding(self.mesh, PartitionSpec())
        self.by_row = NamedSharding(self.mesh, PartitionSpec("data"))

    @property
    def num_devices(self):
        return self.mesh.size

    def rows_per_batch(self, batch_tokens, row_length, accumulate_steps):
        """The most rows that `batch_tokens` allow and that split evenly over devices and parts."""
        unit = self.num_devices * accumulate_steps
        rows = batch_tokens // row_length // unit * unit
        if not rows:
            raise ValueError(
                f"training.batch_tokens ({batch_tokens}) must hold at least one row of "
                f"data.row_length ({row_length}) for each of {self.num_devices} devices × "
                f"training.accumulate_steps ({accumulate_steps}); raise it to {unit * row_length}."
            )
        return rows

    def put_batch(self, batch):
        """A batch of numpy arrays -> the same on the devices, split by row."""
        return jax.tree.map(lambda x: jax.make_array_from_process_local_data(self.by_row, x), batch)

    def on_one_device(self, tree):
        """A replicated tree as it lies on this host's first device, for work that is not mapped."""
        return jax.tree.map(lambda x: x.addressable_data(0), tree)

    def jit_init(self, init_fn):
        """init_fn() -> state, created where it will live."""
        return jax.jit(init_fn, out_shardings=self.replicated)

    def jit_train_step(self, train_step):
        """train_step(state, batch) -> (state, sums); the state is donated."""
        return jax.jit(
            train_step,
            in_shardings=(self.replicated, self.by_row),
            out_shardings=self.replicated,
            donate_argnums=0,
        )

    def jit_eval_step(self, eval_step):
        """eval_step(params, batch) -> sums."""
        return jax.jit(
            eval_step,
            in_shardings=(self.replicated, self.by_row),
            out_shardings=self.replicated,
        )
