"""The training step for TPUs: lowered without one always, compiled where libtpu is installed."""

import importlib.util

import jax
import jax.numpy as jnp
import pytest

from runs import run
from transformer.config import Config
from transformer.parallel import make_parallel
from transformer.trainer import step_without_data
from transformer.training import make_train_step

needs_libtpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the TPU compiler, extra 'tpu'"
)
SMALL = """model.d_model=64 model.d_ff=128 model.num_heads=4 model.num_layers=2 model.dtype=bfloat16
    tokenizer.vocab_size=512 data.row_length=128 training.batch_tokens=2048""".split()  # noqa: SIM905


def small_config():
    config = Config()
    for setting in SMALL:
        name, value = setting.split("=")
        group, leaf = name.split(".")
        setattr(getattr(config, group), leaf, int(value) if value.isdigit() else value)
    return config.validate()


@pytest.mark.parametrize("arranged", [{}, {"remat": True, "scan_layers": True}])
def test_step_lowers_for_tpu(arranged):
    """Catches an operation that only the CPU has, where no TPU nor its compiler is at hand."""
    config = small_config()
    for name, value in arranged.items():
        setattr(config, name, value)
    step = step_without_data(config, make_parallel(config, jax.devices()[:1]))
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), step.abstract_state)
    batch = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, jnp.int32), step.example)
    train_step = make_train_step(step.loss_fn, step.optimizer, seed=0)
    lowered = jax.jit(train_step).trace(shapes, batch).lower(lowering_platforms=("tpu",))
    assert "bf16" in lowered.as_text()


@needs_libtpu
@pytest.mark.parametrize("mesh", [[], ["--config.mesh.fsdp=2", "--config.mesh.tensor=2"]])
def test_dry_run_compiles_for_a_slice_that_is_not_there(mesh, tmp_path):
    settings = [f"--config.{setting}" for setting in SMALL]
    code, _, err = run(
        "train.py", "--config=configs/wmt14_en_de_base.py", *settings, *mesh, "--dry_run",
        "--topology=v5e:2x4", f"--workdir={tmp_path}/none",
    )  # fmt: skip
    assert code == 0, err
    assert "8 × TPU v5 lite on 2 hosts" in err
    assert "fits into 16 GiB" in err
    assert "all-reduce" in err
    assert ("all-gather" in err) == bool(mesh)
    assert not (tmp_path / "none").exists()


@needs_libtpu
def test_unknown_slice_is_refused(tmp_path):
    code, _, err = run("train.py", "--dry_run", "--topology=v5e:0x4", f"--workdir={tmp_path}")
    assert code == 2
    assert "must be a TPU slice such as v5e:4x4" in err.splitlines()[-1]


def test_topology_without_its_compiler_or_dry_run_is_refused(monkeypatch, tmp_path):
    from transformer import topology

    monkeypatch.setattr(topology.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[tpu\]'"):
        topology.topology_devices("v5e:2x2")
    code, _, err = run("train.py", "--topology=v5e:2x2", f"--workdir={tmp_path}/none")
    assert code == 2
    assert "needs --dry_run" in err
