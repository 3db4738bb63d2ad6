"""Every way to map a step over four devices against one device: same parameters, one compile."""

import functools
import tempfile
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import optax
import pytest
from jax.sharding import PartitionSpec

from tests.helpers.rings import others_long
from tests.helpers.tiny_models import make_batch, sentence, tiny_model
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.config import Config, MeshConfig
from transformer.model.loss import make_loss_fn
from transformer.parallel.mapping import Parallel, make_parallel, partition_spec_of
from transformer.training.steps import init_state, make_train_step

NUM_STEPS, NUM_ROWS = 3, 13  # 13 is divided by no number of devices
ONE, DROPOUT = "one device", "one device, dropout"
WAYS = {  # name: (the way to compare with, mesh, parallelism, num_parts, settings of the model)
    ONE: (ONE, (1, 1, 1), "sharded", 1, {}),
    DROPOUT: (DROPOUT, (1, 1, 1), "sharded", 1, {"dropout_rate": 0.1}),
    "pmap in 2 micro-batches": (ONE, (-1, 1, 1), "pmap", 2, {}),
    "2×2×1 with dropout": (DROPOUT, (2, 2, 1), "sharded", 1, {"dropout_rate": 0.1}),
    "4×1×1 with dropout": (DROPOUT, (4, 1, 1), "sharded", 1, {"dropout_rate": 0.1}),
    "pmap with dropout": (DROPOUT, (-1, 1, 1), "pmap", 1, {"dropout_rate": 0.1}),
    "2×1×2 scanned": (ONE, (2, 1, 2), "sharded", 2, {"remat": True, "scan_layers": True}),
    "1×2×2 restored": (ONE, (1, -1, 2), "sharded", 2, {"remat": True, "scan_layers": True}),
}
SEVERAL = [way for way, (baseline, *_) in WAYS.items() if way != baseline]
RESTORED = "1×2×2 restored"  # in 2 micro-batches, scanned, recomputed; also saved and restored

pytestmark = pytest.mark.skipif(len(jax.devices()) != 4, reason="needs four devices")


@pytest.mark.parametrize("way", others_long(SEVERAL, *SEVERAL[::2]))
def test_every_way_gives_the_parameters_of_one_device(way):
    """Catches a mean over devices of means over tokens, of which rows hold unequal numbers, and a
    second compile at the second step, by state that is sharded otherwise."""
    run, alone = trained(way), trained(WAYS[way][0])
    assert difference(alone.start, alone.params) > 0.01
    assert difference(alone.params, run.params) < 1e-5
    assert run.losses == pytest.approx(alone.losses, rel=1e-5)
    for first, *others in (alone.compiles, run.compiles):
        assert first >= 1 and others == [0] * (NUM_STEPS - 1)  # nor does a second step compile


@pytest.mark.long
def test_dropout_was_on_where_it_should_be():
    """Catches a comparison of runs with dropout of which neither has any."""
    assert trained(ONE).losses != trained(DROPOUT).losses


def test_a_sum_over_hosts_is_compiled_once(monkeypatch):
    """Catches a mesh and a program that are made anew at every step on several hosts."""
    parallel = make_parallel(Config(parallelism="pmap"))
    assert parallel.sum_over_hosts(3.0) == 3
    monkeypatch.setattr(jax, "jit", lambda *_, **__: pytest.fail("a second program"))
    assert parallel.sum_over_hosts(5.0) == 5


def test_restored_state_fits_its_mesh_and_compiles_nothing():
    """Catches a restore that puts arrays where they do not belong."""
    run = trained(RESTORED)
    assert run.restored_compiles == 0
    assert difference(run.params, run.restored_params) < 1e-5


def test_every_device_gets_its_share():
    """Catches parameters or Adam's moments that lie whole on every device where any axis divides
    them, a batch that is copied to every device, and an axis of -1 that is not what is left."""
    one, pmapped, *sharded = map(trained, (ONE, SEVERAL[0], SEVERAL[1], SEVERAL[2], RESTORED))
    assert pmapped.bytes == one.bytes
    assert all(run.bytes < one.bytes / 3 for run in sharded)
    assert [run.rows for run in (one, pmapped, *sharded)] == [13, 4, 4, 4, 8]


def test_settings_that_do_not_make_a_mesh_are_refused():
    """Catches an error from deep inside jax instead of a sentence with the way out."""
    for changes, said in (
        ({"mesh.fsdp": 3}, "mesh.data -1 × mesh.fsdp 3 .* does not make the 8 .* of them to -1"),
        ({"mesh.tensor": 8, "model.num_heads": 4}, r"\(8\) must divide model.num_heads \(4\)"),
    ):
        with pytest.raises(ValueError, match=said):
            make_parallel(Config().with_values(changes), [object()] * 8)


def difference(a, b):
    largest = jax.tree.map(lambda x, y: np.abs(x - y).max(), *jax.device_get((a, b)))
    return float(max(jax.tree.leaves(largest)))


@functools.cache
def trained(way):
    """NUM_STEPS of training in one of the WAYS, and what there was to see of them."""
    _, mesh, parallelism, num_parts, options = WAYS[way]
    rng, rate = np.random.default_rng(0), options.get("dropout_rate", 0.0)
    lengths = rng.integers(1, 8, (NUM_STEPS, NUM_ROWS, 2))  # of a sentence on either side of a row
    rows = [[[tuple(sentence(rng, n) for n in pair)] for pair in step] for step in lengths]
    batches = [make_batch(step, 7, 7) for step in rows]
    model = tiny_model(num_layers=1, dropout_rate=rate)
    model = model.clone(**{name: options[name] for name in options.keys() - {"dropout_rate"}})
    config = Config(model=model.config, mesh=MeshConfig(*mesh), parallelism=parallelism)
    parallel = make_parallel(config, jax.devices()[:1] if mesh == (1, 1, 1) else None)
    # An ε that is not tiny: Adam then does not blow rounding errors up to whole steps.
    loss_fn, optimizer = make_loss_fn(model, 0.1), optax.adam(0.01, eps=1e-3)
    init = partial(init_state, model, optimizer, batches[0], 0)
    abstract = parallel.abstract(init)
    train_step = parallel.map_step(
        partial(make_train_step, loss_fn, optimizer, 0, num_parts), abstract
    )

    def update(state, batch):
        """(the next state, the loss, the number of programs that XLA compiled for it)"""
        events = []

        def listen(name, *_, **__):
            events.append("backend_compile" in name)

        jax.monitoring.register_event_duration_secs_listener(listen)
        state, sums = jax.block_until_ready(train_step(state, batch))
        jax.monitoring.unregister_event_duration_listener(listen)
        return state, float(sums["loss"]), sum(events)

    run = SimpleNamespace(losses=[], compiles=[], bytes=parallel.bytes_per_device(abstract))
    state = parallel.init(init)
    run.start = jax.device_get(state.params)
    for step, batch in enumerate(batches):
        batch = jax.block_until_ready(parallel.put_batch(batch, num_parts))
        run.rows = len(batch.inputs.addressable_shards[0].data)
        if way == RESTORED and step == NUM_STEPS - 1:
            with tempfile.TemporaryDirectory() as folder:
                checkpoints = Checkpoints(folder, keep=1)
                checkpoints.save(state)
                restored = checkpoints.restore(abstract)
                checkpoints.close()
            restored, _, run.restored_compiles = update(restored, batch)
            run.restored_params = jax.device_get(restored.params)
        state, loss, num_compiles = update(state, batch)
        run.losses.append(loss)
        run.compiles.append(num_compiles)
    run.params = jax.device_get(state.params)
    return run


SIZES = {"data": 2, "fsdp": 2, "tensor": 2}


def test_every_matrix_is_divided_by_all_axes_and_its_moments_with_it():
    """Catches a weight that was renamed and now lies whole on every device, which costs memory, and
    an optimizer that moves all its state at every step."""
    model, batch = tiny_model(num_layers=1), make_batch([[((5, 6), (7, 8))]], 4, 4)
    state = jax.eval_shape(lambda: init_state(model, optax.adam(1.0), batch, 0))
    specs, matrices = {}, []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        spec = specs[jax.tree_util.keystr(path)] = partition_spec_of(path, leaf.shape, SIZES)
        matrices += [spec] * (len(leaf.shape) == 2)
    assert len(matrices) == 3 * (1 + 6 + 10)  # parameters and two moments
    assert all(set(jax.tree.leaves(tuple(spec))) == {*SIZES} for spec in matrices), specs
    moments = [name for name in specs if ".mu" in name or ".nu" in name]
    assert moments
    for name in moments:
        assert specs[name] == specs[".params" + name.split("mu" if ".mu" in name else "nu", 1)[1]]


def test_dimension_that_cannot_be_divided_evenly_stays_whole():
    """Catches an error for a vocabulary of odd size, or for a width that has no share for all."""
    path = (jax.tree_util.DictKey("table"),)
    assert partition_spec_of(path, (13, 16), SIZES) == PartitionSpec(None, ("data", "fsdp"))
    assert partition_spec_of(path, (13, 6), SIZES) == PartitionSpec(None, "fsdp")
    assert partition_spec_of(path, (13, 6), SIZES | {"fsdp": 4}) == PartitionSpec(None, ("data",))
    kept = partition_spec_of(path, (16, 16), SIZES, is_shared=False)  # as pmap keeps it
    assert kept == PartitionSpec("tensor", "fsdp")


def test_a_host_needs_the_rows_of_its_devices():
    """Catches a host without the rows of one of its devices, of 8 rows over 4 devices."""
    of_hosts = {(4, 8): [(4, 6), (6, None)], (2, 8): [(2, 4), (6, 8)], (0, 8): [(None, None)]}
    for rows, shards in of_hosts.items():
        places = {str(shard): (slice(*shard),) for shard in shards}
        by_row = SimpleNamespace(addressable_devices_indices_map={(8,): places}.get)
        assert Parallel.rows_of_host(SimpleNamespace(by_row=by_row), 8) == rows
