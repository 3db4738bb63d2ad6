"""A checkpoint holds all that restoring needs; what lies beside it changes nothing in silence."""

import errno
import json
import shutil
from unittest.mock import Mock

import jax
import numpy as np
import pytest

from tests.helpers.notes import change_notes
from tests.helpers.random_runs import write_run
from transformer import workdir
from transformer.checkpoint import about
from transformer.checkpoint.about import FORMAT
from transformer.checkpoint.export import export
from transformer.checkpoint.restore import restore


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run of three checkpoints, 20 the best of them and 60 the worst."""
    return write_run(tmp_path_factory.mktemp("run") / "run", steps=(20, 40, 60))


@pytest.fixture
def run(written, tmp_path):
    return shutil.copytree(written, tmp_path / "run")


def change_config(run, group, name, value):
    config = json.loads((run / "config.json").read_text())
    config[group][name] = value
    (run / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("task", ["translation", "classification"])
def test_a_checkpoint_holds_all_that_its_outputs_depend_on(task, tmp_path):
    """Catches a changed network, two pieces or two classes that have changed places: what lies
    beside a checkpoint would make another model of it."""
    run = write_run(tmp_path / "run", task)
    whole = restore(run)
    change_config(run, "model", "num_heads", 4)
    change_config(run, "data", "row_length", 32)
    for file in (*run.glob("tokenizer.*"), *run.glob("classes.json")):
        file.write_bytes(file.read_bytes()[::-1])
    found = restore(run)
    assert found.config == whole.config
    assert [t.to_bytes() for t in found.tokenizers] == [t.to_bytes() for t in whole.tokenizers]
    assert found.labels == whole.labels and found.model == whole.model


def test_a_changed_search_is_taken_and_named(run):
    """Catches a beam that was changed on purpose and is refused, or used without a word."""
    change_config(run, "decoding", "beam_size", 3)
    change_config(run, "training", "seed", 7)
    with pytest.warns(UserWarning, match="decoding.beam_size is 3 in config.json and was 2 when"):
        config = restore(run).config
    assert (config.decoding.beam_size, config.training.seed) == (3, 0)


def test_no_file_of_a_checkpoint_is_written_elsewhere(run, tmp_path):
    """Catches a checkpoint of a stranger that names a file outside the folder of an export."""
    elsewhere = {"../classes.json": "", f"{tmp_path}/tokenizer.model": ""}
    for file in run.glob("checkpoints/*/about/metadata"):
        change_notes(file, lambda written: written["files"].update(elsewhere))
    export(run, tmp_path / "exports" / "export")
    assert [path.name for path in (tmp_path / "exports").iterdir()] == ["export"]
    assert not (tmp_path / "tokenizer.model").exists()


def test_a_renamed_step_is_not_taken_for_another(run):
    """Catches step 60 under the name of 80, from which training would go on in the wrong place."""
    (run / "checkpoints" / "60").rename(run / "checkpoints" / "80")
    with pytest.warns(UserWarning, match="Checkpoint 80 cannot be used.*holds .* of step 60"):
        assert restore(run, "last").step == 40


def test_intact_checkpoints_stand_in_for_a_damaged_one(run):
    """Catches an evaluation that fails although another checkpoint is whole, or hides which, and a
    mean that counts a damaged checkpoint."""
    for file in (run / "checkpoints" / "20").rglob("d/*"):
        file.write_bytes(b"")
    with pytest.warns(UserWarning, match="Checkpoint 20 cannot be used"):
        best, mean = (restore(run, name) for name in ("best", "average:3"))
    assert best.checkpoint == "best of those intact (40)"
    assert (mean.checkpoint, mean.num_averaged) == ("mean of 2 (40 to 60)", 2)
    one, both = (jax.tree.leaves(loaded.params)[0] for loaded in (best, mean))
    np.testing.assert_allclose(both, one * 1.5 / 1.4, rtol=1e-6)
    with (
        pytest.warns(UserWarning, match="Checkpoint 20"),
        pytest.raises(ValueError, match="could be restored"),
    ):
        restore(run, 20)


@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_scores_that_are_lost_are_missed(run, harm):
    """Catches one digit of a score, or a lost file, that silently makes another checkpoint best."""
    file = run / "metrics.jsonl"
    file.write_text(file.read_text().replace("-20.0", "-90.0") * (harm == "altered"))
    with pytest.warns(UserWarning, match=r"metrics\.jsonl no longer holds the 2 records"):
        found = restore(run).checkpoint
    assert found == ("best (40)" if harm == "altered" else "last (60)")


def test_scores_that_cannot_be_read_now_choose_no_other_checkpoint(run, monkeypatch):
    """Catches a disk that fails for a moment and makes the last checkpoint the answer."""
    error = OSError(errno.EIO, "Input/output error")
    monkeypatch.setattr(workdir, "read_file", Mock(side_effect=error))
    with pytest.raises(OSError, match=r"Input/output error"):
        restore(run)


def test_a_newer_format_names_the_version_that_wrote_it(run, monkeypatch):
    """Catches training that goes on from before what a newer version trained, with a warning."""
    file = max((run / "checkpoints").glob("*/about/metadata"), key=lambda path: int(path.parts[-3]))
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written | {"format": FORMAT + 1}))  # a flipped bit, no newer one
    with pytest.warns(UserWarning, match="notes .* are not those that were saved"):
        restore(run, "last")
    with monkeypatch.context() as context:
        context.setattr(about, "FORMAT", FORMAT + 1)
        change_notes(file, lambda written: None)
    with pytest.raises(ValueError, match=r"Checkpoint \d+ of .* version .* install that version"):
        restore(run, "last")
