"""Training low-rank adapters of another run, with the smallest task there is."""

import json
import shutil

import jax
import numpy as np
import pytest

from tests.training.test_trainer import assert_same_run, run_in_folder
from transformer.checkpoint.checkpoints import BASE_FILE, Checkpoints, load_checkpoint
from transformer.checkpoint.export import export
from transformer.checkpoint.train_state import init_adapters, merge
from transformer.workdir import WorkDir


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run, `base`, and adapters to it, `adapters`, of six steps."""
    folder = tmp_path_factory.mktemp("lora")
    run_in_folder(folder / "base", eval_every=5)
    adapt(folder / "adapters", folder / "base")
    return folder


def adapt(run, base, num_train_steps=6):
    options = {"lora_rank": 1, "num_train_steps": num_train_steps}
    return run_in_folder(run, init_from=str(base), **options)


@pytest.mark.long
def test_adapters_begin_at_the_base_and_learn(folder):
    """Catches adapters that change the model before they have learnt anything, or never do."""
    records = (WorkDir(folder / name).read_metrics() for name in ("base", "adapters"))
    name = "validation_loss"
    losses = [{r["step"]: r[name] for r in run if name in r} for run in records]
    assert list(losses[1]) == [0, 3, 6]
    assert losses[0][5] == losses[1][0] > losses[1][6]


def test_only_adapters_are_saved_and_restoring_merges_them(folder):
    """Catches a base that is saved again or trained, and adapters that are not applied."""
    saved = Checkpoints(folder / "adapters" / "checkpoints", keep=5, read_only=True).load("last")
    factors = saved.params["Dense_0"]["kernel"]
    shapes = {"Dense_0": {"kernel": {"a": (2, 1), "b": (1, 1)}}}
    assert jax.tree.map(np.shape, saved.params) == shapes
    base = load_checkpoint(WorkDir(folder / "base")).params["Dense_0"]
    whole = load_checkpoint(WorkDir(folder / "adapters"))
    merged = whole.params["Dense_0"]
    assert whole.step == saved.step == 6
    np.testing.assert_array_equal(merged["bias"], base["bias"])
    assert np.abs(merged["kernel"] - base["kernel"]).min() > 0.001
    np.testing.assert_allclose(merged["kernel"], base["kernel"] + factors["a"] @ factors["b"])


def test_stopped_and_resumed_equals_undisturbed(folder, tmp_path):
    """Catches a resumption that adapts fresh parameters, or draws adapters anew."""
    adapt(tmp_path / "resumed", folder / "base", 3)
    assert_same_run(*(adapt(tmp_path / name, folder / "base") for name in ("resumed", "whole")))


def test_an_export_needs_no_base(folder, tmp_path):
    """Catches an export of adapters alone, which nothing could open without their base."""
    export(folder / "adapters", tmp_path / "export")
    whole, alone = (load_checkpoint(WorkDir(p)) for p in (folder / "adapters", tmp_path / "export"))
    kernels = [loaded.params["Dense_0"]["kernel"].astype(np.float32) for loaded in (whole, alone)]
    np.testing.assert_allclose(*kernels, rtol=0.01)


def test_a_base_that_is_gone_or_changed_is_refused(folder, tmp_path):
    """Catches adapters that are added to other parameters than those they were trained with."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    adapters = WorkDir(tmp_path / "adapters")
    about = json.loads((adapters / BASE_FILE).read_text())
    (adapters / BASE_FILE).write_text(json.dumps(about | {"base": str(tmp_path / "base")}))
    load_checkpoint(adapters)
    run_in_folder(tmp_path / "base", eval_every=5, num_train_steps=10)
    with pytest.raises(ValueError, match=r"of best \(5\) of .* is now best \(10\) with other"):
        load_checkpoint(adapters)
    shutil.rmtree(tmp_path / "base")
    with pytest.raises(ValueError, match="/base, which is not there; put it back, or name its new"):
        load_checkpoint(adapters)


def test_every_matrix_but_embeddings_is_adapted():
    """Catches norms, biases or tables with adapters, and factors that all begin alike."""
    inner = {"kernel": np.ones((6, 4)), "bias": np.ones(4)}
    block = {"inner": inner, "norm": {"scale": np.ones(4)}}
    params = {"table": np.ones((9, 4)), "layer_0": block, "layer_1": block}
    adapters = init_adapters(params, 2, jax.random.key(0))
    shapes = {"inner": {"kernel": {"a": (6, 2), "b": (2, 4)}}}
    assert jax.tree.map(np.shape, adapters) == {"layer_0": shapes, "layer_1": shapes}
    first, second = (adapters[name]["inner"]["kernel"]["a"] for name in ("layer_0", "layer_1"))
    assert np.abs(first - second).min() > 0.001
    jax.tree.map(np.testing.assert_array_equal, merge(params, adapters), params)
