"""A checkpoint alone in bfloat16: small, opened like any other, and translating alike."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from tests.helpers.scripts import ROOT, run, write_config
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.export import export
from transformer.inference.translator import Translator

SENTENCES = ["0 1 2", "5 5 4 3", "1"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")
    flags = [f"--config={write_config(folder)}", f"--workdir={folder / 'run'}"]
    code, _, err = run("train.py", *flags, "--config.training.num_train_steps=150")
    assert code == 0, err
    return folder / "run"


def stored_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("d/*"))


def test_exported_checkpoint_is_small_and_translates_alike(trained, tmp_path):
    """Catches an optimizer that comes along, and parameters that are cast back when restored."""
    said = export(trained, tmp_path / "small")
    assert "best (150)" in said and "bfloat16" in said
    ours, theirs = (Translator.from_checkpoint(f) for f in (tmp_path / "small", trained))
    assert {leaf.dtype for leaf in jax.tree.leaves(ours.params)} == {jnp.dtype("bfloat16")}
    assert ours.config.model.dtype == "bfloat16"
    jax.tree.map(
        lambda a, b: jax.numpy.allclose(a, b, rtol=1e-2, atol=1e-2) or pytest.fail("other weights"),
        ours.params,
        theirs.params,
    )
    for a, b in zip(ours.translate(SENTENCES), theirs.translate(SENTENCES), strict=True):
        assert a.text == b.text
        assert a.score == pytest.approx(b.score, abs=0.05)
    newest = Checkpoints(trained / "checkpoints", keep=1, read_only=True).steps()[-1]
    whole = stored_bytes(trained / "checkpoints" / str(newest))
    assert stored_bytes(tmp_path / "small" / "checkpoints") < whole / 3


def test_command_and_its_mistakes(trained, tmp_path):
    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "transformer.cli.export", *map(str, words)],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        return done.returncode, done.stderr

    code, said = command(trained, tmp_path / "a", "last")
    assert code == 0, said
    assert "last (150)" in said
    for words, problem in (
        ((trained,), "expected python -m transformer.cli.export WORKDIR FOLDER"),
        ((trained, tmp_path / "a"), "holds a run already"),
        ((tmp_path / "none", tmp_path / "b"), "is not a work directory"),
        ((trained, tmp_path / "b", "7"), "not 7"),
    ):
        code, said = command(*words)
        assert code == 2
        assert problem in said
        assert len(said.strip().splitlines()) == 1
