"""A checkpoint alone in bfloat16: small, and opened like any other."""

import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.random_runs import write_run
from transformer.checkpoint.export import export, save_run
from transformer.checkpoint.restore import restore
from transformer.inference.translator import Translator


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_run(tmp_path_factory.mktemp("run"), steps=(20, 40), d_model=64, d_ff=128)


def test_an_exported_checkpoint_is_small_and_holds_the_same_weights(run, tmp_path):
    """Catches an optimizer that comes along, and parameters that are cast back when restored."""
    assert "best (20)" in export(run, tmp_path / "small")
    ours, theirs = (Translator.from_checkpoint(f) for f in (tmp_path / "small", run))
    assert ours.config.model.dtype == "bfloat16"
    assert (ours.run.checkpoint, theirs.run.checkpoint) == ("last (20)", "best (20)")
    for a, b in zip(jax.tree.leaves(ours.params), jax.tree.leaves(theirs.params), strict=True):
        assert a.dtype == jnp.bfloat16
        np.testing.assert_allclose(np.float32(a), b, rtol=1e-2, atol=1e-2)
    folders = tmp_path / "small" / "checkpoints", run / "checkpoints" / "20"
    small, whole = (sum(p.stat().st_size for p in f.rglob("d/*")) for f in folders)
    assert small < whole / 3


def test_wrong_folders_and_checkpoints_are_refused(run, tmp_path):
    """Catches an export that overwrites a run, or begins a folder for a missing checkpoint."""
    assert "last (40)" in export(run, tmp_path / "a", "last")
    shutil.copytree(tmp_path / "a" / "checkpoints", tmp_path / "half" / "checkpoints")
    for arguments, problem in (
        ((run, tmp_path / "a"), "holds a run already"),
        ((run, tmp_path / "half"), "or a part of one"),
        ((tmp_path / "none", tmp_path / "b"), "is not a work directory"),
        ((run, tmp_path / "b", "7"), "not 7"),
    ):
        with pytest.raises(ValueError, match=problem):
            export(*arguments)
    assert not (tmp_path / "b").exists()


def test_a_run_in_memory_is_saved_and_restored(run, tmp_path):
    """Catches parameters, vocabulary or step that are lost, and parameters of another model."""
    in_memory = restore(run)
    save_run(in_memory, tmp_path / "saved", step=300)
    saved, texts = restore(tmp_path / "saved"), ["w1 w2", "w3"]
    assert saved.step == 300 and saved.config == in_memory.config
    translations = [Translator(each).translate(texts) for each in (saved, in_memory)]
    assert translations[0] == translations[1]
    with pytest.raises(ValueError, match="holds a run already"):
        save_run(in_memory, tmp_path / "saved")
    with pytest.raises(ValueError, match="of other layers"):
        save_run(replace(in_memory, params={}), tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()
