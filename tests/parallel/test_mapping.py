"""Eight fake devices, in a process of their own, against one: same parameters, one compile.

Run as a script, this file is that process: it prints what the tests look at as JSON.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import jax
import numpy as np
import optax
import pytest

from tests.helpers.tiny_models import make_batch, sentence, tiny_model
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.config import Config, MeshConfig
from transformer.model.loss import make_loss_fn
from transformer.parallel.mapping import make_parallel
from transformer.train.steps import init_state, make_train_step

ROOT = pathlib.Path(__file__).parents[2]
NUM_STEPS, NUM_ROWS = 5, 13  # of which no number of devices is a divisor
WAYS = {  # name: (data, fsdp, tensor, how, parts of a batch, settings of the model)
    "pmap": (-1, 1, 1, "pmap", 1, {}),
    "8×1×1": (8, 1, 1, "sharded", 1, {}),
    "2×4×1": (2, 4, 1, "sharded", 1, {}),
    "2×2×2": (2, 2, 2, "sharded", 1, {}),
    "one device in 8 parts": (1, 1, 1, "sharded", 8, {}),
    "pmap in 2 parts": (-1, 1, 1, "pmap", 2, {}),
    "2×2×2 in 2 parts": (2, 2, 2, "sharded", 2, {}),
    "2×2×2 with dropout": (2, 2, 2, "sharded", 1, {"dropout_rate": 0.1}),
    "1×4×2, scanned, recomputed": (-1, 4, 2, "sharded", 1, {"remat": True, "scan_layers": True}),
}


@pytest.fixture(scope="module")
def seen():
    """What the process with eight devices found."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiles in half the time
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_parameters_of_one_device(way, seen):
    """Catches a mean over devices of means over tokens: rows hold unequal numbers of them."""
    alone = "one device, dropout" if "dropout" in way else "one device"
    assert seen[alone]["moved"] > 0.01
    assert seen[way]["difference"] < 1e-5
    assert seen[way]["losses"] == pytest.approx(seen[alone]["losses"], rel=1e-5)


def test_dropout_was_on_where_it_should_be(seen):
    assert seen["one device"]["losses"] != seen["one device, dropout"]["losses"]


@pytest.mark.parametrize("way", ["one device", *WAYS])
def test_step_compiles_once(way, seen):
    """Catches a second compile at the second step, by state that comes back placed otherwise."""
    assert seen[way]["compiles"][0] >= 1
    assert seen[way]["compiles"][1:] == [0] * (NUM_STEPS - 1)


@pytest.mark.parametrize("way", ["2×4×1", "2×2×2"])
def test_restored_state_fits_every_mesh_and_compiles_nothing(way, seen):
    """Catches a restore that needs the mesh that wrote, or places arrays where they do not lie."""
    assert seen[way]["restored_compiles"] == 0
    assert seen[way]["restored_difference"] < 1e-5


def test_shared_parameters_take_their_share_of_memory(seen):
    """Catches parameters or Adam's moments that lie whole on every device under fsdp and tensor."""
    whole = seen["one device"]["bytes"]
    assert seen["8×1×1"]["bytes"] == seen["pmap"]["bytes"] == whole
    assert seen["2×4×1"]["bytes"] < whole / 3
    assert seen["2×2×2"]["bytes"] < whole / 3
    assert seen["1×4×2, scanned, recomputed"]["bytes"] < whole / 5


def test_every_device_gets_its_rows(seen):
    """Catches a batch that is copied to every device, which would do the work eight times."""
    assert seen["8×1×1"]["rows"] == 2  # of 13 rows and 3 empty ones
    assert seen["2×2×2"]["rows"] == 4
    assert seen["2×2×2 in 2 parts"]["rows"] == 4
    assert seen["one device in 8 parts"]["rows"] == 16


def test_settings_that_do_not_make_a_mesh_are_refused():
    """Catches an error from deep inside jax instead of a sentence with the way out."""
    devices = [object()] * 8
    for changes, said in (
        (dict(fsdp=3), "mesh.fsdp 3 .* does not make the 8 devices of this run"),
        (dict(data=2), "mesh.data 2 .* set one of them to -1"),
        (dict(tensor=8, heads=4), r"mesh.tensor \(8\) must divide model.num_heads \(4\)"),
    ):
        config = Config()
        config.model.num_heads = changes.pop("heads", 8)
        for axis, size in changes.items():
            setattr(config.mesh, axis, size)
        with pytest.raises(ValueError, match=said):
            make_parallel(config.validate(), devices)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (dict(data=-1, fsdp=-1), "Only one of mesh.data, mesh.fsdp and mesh.tensor may be -1"),
        (dict(tensor=0), "mesh.tensor must be at least 1, or -1"),
        (dict(fsdp=2, parallelism="pmap"), "need parallelism=sharded"),
        (dict(parallelism="jit"), "parallelism must be one of sharded, pmap"),
    ],
)
def test_wrong_settings_are_refused_before_any_device_is_looked_at(changes, said):
    config = Config()
    config.parallelism = changes.pop("parallelism", "sharded")
    for axis, size in changes.items():
        setattr(config.mesh, axis, size)
    with pytest.raises(ValueError, match=said):
        config.validate()


def make_batches():
    """A batch for each step, of rows with one sentence of 1 to 7 pieces on either side."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, (NUM_STEPS, NUM_ROWS, 2))
    rows = [[[tuple(sentence(rng, n) for n in pair)] for pair in step] for step in lengths]
    return [make_batch(step, 7, 7) for step in rows]


def count_compiles():
    """A list that grows with every XLA compile from now on."""
    compiles = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda name, *_, **__: compiles.append(name) if "backend_compile" in name else None
    )
    return compiles


def difference(a, b):
    """The largest between the arrays of two trees."""
    largest = jax.tree.map(lambda x, y: np.abs(x - y).max(), *jax.device_get((a, b)))
    return float(max(jax.tree.leaves(largest)))


def save_and_restore(state, like):
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder, keep=1)
        checkpoints.save(state)
        checkpoints.wait()
        restored = checkpoints.restore(like)
        checkpoints.close()
    return restored


class Run:
    """Training in one of the WAYS; `report` is what the tests look at."""

    # An ε that is not tiny: Adam then does not blow rounding errors up to whole steps.
    optimizer = optax.adam(0.01, eps=1e-3)

    def __init__(self, compiles, batches, data, fsdp, tensor, how, parts, settings):
        arranged = dict(settings)
        rate = arranged.pop("dropout_rate", 0.0)
        model = tiny_model(num_layers=2, dropout_rate=rate).clone(**arranged)
        config = Config(model=model.config, mesh=MeshConfig(data, fsdp, tensor), parallelism=how)
        devices = jax.devices()[:1] if data == fsdp == tensor == 1 else None
        self.parallel, loss_fn = make_parallel(config, devices), make_loss_fn(model, 0.1)
        self.init = lambda: init_state(model, self.optimizer, batches[0], 0)
        self.abstract = self.parallel.abstract(self.init)
        self.train_step = self.parallel.map_step(
            lambda axis: make_train_step(loss_fn, self.optimizer, 0, parts, axis), self.abstract
        )
        self.compiles, self.batches, self.parts = compiles, batches, parts
        self.report = {"losses": [], "compiles": []}
        self.report["bytes"] = self.parallel.bytes_per_device(self.abstract)

    def update(self, state, batch):
        """(the next state, sums, compiles that it took)"""
        batch = jax.block_until_ready(self.parallel.put_batch(batch, self.parts))
        self.report["rows"] = batch.inputs.addressable_shards[0].data.reshape(-1, 7).shape[0]
        before = len(self.compiles)
        state, sums = jax.block_until_ready(self.train_step(state, batch))
        return state, sums, len(self.compiles) - before

    def train(self):
        """The parameters after the last step, before which the state is also saved and restored."""
        report, state = self.report, self.parallel.init(self.init)
        start = jax.device_get(state.params)
        for batch in self.batches[:-1]:
            state, sums, compiles = self.update(state, batch)
            report["losses"].append(float(sums["loss"]))
            report["compiles"].append(compiles)
        restored = save_and_restore(state, self.abstract)
        state, sums, compiles = self.update(state, self.batches[-1])
        report["compiles"].append(compiles)
        restored, _, report["restored_compiles"] = self.update(restored, self.batches[-1])
        report["restored_difference"] = difference(state.params, restored.params)
        report["moved"] = difference(start, state.params)
        return state.params


def main():
    compiles, batches = count_compiles(), make_batches()
    found, params = {}, {}
    for alone, settings in (("one device", {}), ("one device, dropout", {"dropout_rate": 0.1})):
        run = Run(compiles, batches, 1, 1, 1, "sharded", 1, settings)
        params[alone], found[alone] = run.train(), run.report
    for way, settings in WAYS.items():
        run = Run(compiles, batches, *settings)
        alone = "one device, dropout" if "dropout" in way else "one device"
        run.report["difference"] = difference(params[alone], run.train())
        found[way] = run.report
    print(json.dumps(found))


if __name__ == "__main__":
    main()
