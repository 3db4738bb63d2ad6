"""The programs for TPUs: lowered without one always, compiled where libtpu is installed."""

import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from tests.helpers.scripts import run
from transformer.config import Config
from transformer.model.encoder_decoder import Transformer
from transformer.parallel import topology
from transformer.parallel.devices import find_chip
from transformer.parallel.mapping import make_parallel
from transformer.search.decoding import Limits
from transformer.search.options import SearchOptions
from transformer.search.programs import REPLICA, SearchPrograms, make_replicas
from transformer.search.slots import Sentences
from transformer.training.startup_summary import make_step_without_data
from transformer.training.steps import make_train_step

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the TPU compiler, extra 'tpu'"
)


@pytest.fixture(autouse=True)
def no_flags_of_the_cpu(monkeypatch):
    """The TPU compiler ends a process whose XLA_FLAGS it does not know; jax reads them before."""
    jax.devices()
    monkeypatch.setenv("XLA_FLAGS", "")


SMALL = {
    "model.d_model": 64, "model.d_ff": 128, "model.num_heads": 4, "model.num_layers": 1,
    "model.dtype": "bfloat16", "tokenizer.vocab_size": 512, "data.row_length": 128,
    "training.batch_tokens": 2048,
}  # fmt: skip


def test_step_lowers_for_tpu():
    """Catches an operation that only the CPU has, where no TPU nor its compiler is at hand."""
    config = Config().with_values(SMALL)
    config.remat = config.scan_layers = True
    step = make_step_without_data(config, make_parallel(config, jax.devices()[:1]))
    traced = jax.jit(make_train_step(step.loss_fn, step.optimizer, seed=0)).trace(
        jax.eval_shape(lambda state: state, step.abstract_state), step.example_batch
    )
    assert "bf16" in traced.lower(lowering_platforms=("tpu",)).as_text()


def trace_search(beam_size, devices, num_columns):
    """The traced programs that encode and advance a search, of 4 sentences on each device."""
    config, count = Config().with_values(SMALL), 4 * len(devices)
    size = config.tokenizer.vocab_size
    method = SearchOptions.from_config(config.decoding, beam_size=beam_size).method()
    step = make_step_without_data(config, make_parallel(config, jax.devices()[:1]))
    model = Transformer(config.model, size, size)
    programs = SearchPrograms(model, method, make_replicas(devices))

    def put_on(tree, *axes):
        sharding = NamedSharding(programs.replicas, P(*axes))
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), tree
        )

    params, numbers = put_on(step.abstract_state.params), np.zeros(count, np.int32)
    sources = put_on((np.zeros((count, 16), np.int32), numbers), REPLICA)
    encode = programs.encode.trace(params, *sources)
    limits, rngs = Limits(numbers, np.zeros((count, 40), np.int32)), np.zeros((count, 2), np.uint32)
    queue = put_on(Sentences(numbers, limits, rngs, encode.out_info), REPLICA)
    slots = put_on(programs.empty_slots.eval_shape(queue, num_columns), REPLICA)
    free = put_on(jax.ShapeDtypeStruct((len(devices),), jnp.int32), REPLICA)
    return encode, programs.advance.trace(params, slots, queue, free)


@pytest.mark.parametrize("platform, beam_size", [("tpu", 1), ("tpu", 4), ("cuda", 4)])
def test_search_lowers_for_accelerators(platform, beam_size):
    """Catches an operation that only the CPU has, in what it does not run itself."""
    for traced in trace_search(beam_size, jax.devices()[:1], 24):
        traced.lower(lowering_platforms=(platform,))


@needs_libtpu
@pytest.mark.parametrize(("beam_size", "num_columns"), [(1, 128), (4, 24)])
def test_search_compiles_for_a_slice(beam_size, num_columns):
    """Catches what lowers and then does not compile, and a step that sorts the vocabulary.

    With 128 columns a gather along them ends the compiler of jax 0.10, and the process.
    """
    programs = trace_search(beam_size, topology.topology_devices("v5e:2x2"), num_columns)
    _, text = (traced.lower().compile().as_text() for traced in programs)
    sorts = [line for line in text.split("\n") if " sort(" in line]
    vocabulary = beam_size * SMALL["tokenizer.vocab_size"]
    assert not [line for line in sorts if f",{vocabulary}]" in line]


@needs_libtpu
@pytest.mark.parametrize("mesh", [[], ["--config.mesh.fsdp=2", "--config.mesh.tensor=2"]])
def test_dry_run_compiles_for_a_slice(mesh, tmp_path):
    """Catches a step that a TPU cannot run, and a mesh that divides no parameters."""
    settings = [f"--config.{name}={value}" for name, value in SMALL.items()]
    code, _, err = run(
        "train.py", "--config=configs/wmt14_en_de_base.py", *settings, *mesh, "--dry_run",
        "--topology=v5e:2x4", f"--workdir={tmp_path}/none", env={"XLA_FLAGS": ""},
    )  # fmt: skip
    assert code == 0, err
    assert "8 × TPU v5 lite on 2 hosts" in err and "fits into 16 GiB" in err
    assert "all-reduce" in err and ("all-gather" in err) == bool(mesh)
    assert not (tmp_path / "none").exists()


SLICES = {
    "v5litepod-16": "v5e:4x4", "v5e-1": "v5e:1x1", "v5e:4x8": "v5e:4x8", "v6e-8": "v6e:2x4",
    "v5p-32": "v5p:2x2x4", "v4-8": "v4:2x2x1", "v4-16": "v4:2x2x2", "v3-8": "v3:2x2",
    "v2-32": "v2:4x4", "tpu7x-8": "tpu7x:2x2x1",
}  # fmt: skip


def test_slices_have_the_names_of_google_cloud():
    """Catches cores taken for chips (v4-8 has 4 chips, and v6e-8 has 8), and two devices for each
    chip of a v4, on which no mesh can be made."""
    assert {name: topology.find_slice(name)[0] for name in SLICES} == SLICES
    options = {"v4:2x2x2": {"chip_config_name": "megacore"}, "v3-8": {}, "v5e:2x4": {}}
    options["v5litepod-8"] = {"chips_per_host_bounds": (2, 4, 1)}
    assert {name: topology.find_slice(name)[1] for name in options} == options


@pytest.mark.parametrize(
    ("name", "known"),
    [("v9-8", "v5litepod, v5p, v6e"), ("v5e-17", "v5e-16 (4x4), v5e-32"), ("v4:2x0x1", "v4-8 (2x")],
)
def test_unknown_slice_is_refused(name, known, monkeypatch):
    """Catches a stack trace of the TPU compiler, or from inside JAX where that is not installed,
    and a refusal that names no slice."""
    with pytest.raises(ValueError, match=rf"TPU slice such as .* not '{name}'") as error:
        topology.topology_devices(name)
    assert known in str(error.value)
    monkeypatch.setattr(topology.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[tpu\]'"):
        topology.topology_devices("v5e:2x2")


@needs_libtpu
@pytest.mark.parametrize(
    ("name", "mesh"),
    [
        *[("v4-16", (8, 1, 1)), ("v5e-1", (1, 1, 1)), ("v3-8", (8, 1, 1)), ("tpu7x-8", (8, 1, 1))],
        *[("v5e-16", mesh) for mesh in ((8, 2, 1), (2, 8, 1), (8, 1, 2), (2, 4, 2))],
    ],
)
def test_a_mesh_fits_every_kind_of_slice(name, mesh):
    """Catches a generation whose devices JAX does not put into a mesh, or a traceback for an axis
    that is a part of one of the slice."""
    config, devices = Config().with_values(SMALL), topology.topology_devices(name)
    config.mesh.data, config.mesh.fsdp, config.mesh.tensor = mesh
    assert tuple(make_parallel(config, devices).mesh.shape.values()) == mesh
    assert find_chip(devices[0].device_kind)
    with pytest.raises(ValueError, match="The TPU compiler has no slice v5e:3x5"):
        topology.topology_devices("v5e:3x5")
