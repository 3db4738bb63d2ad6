"""A run is one thing: what belongs to another one is refused by a sentence that names the file."""

import errno
import json
import shutil

import numpy as np
import pytest

from tests.helpers.random_runs import write_run
from transformer.checkpoint import score_file
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.notes import FORMAT
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


@pytest.mark.parametrize(
    "group, name, value",
    [("model", "num_heads", 4), ("model", "attention", "dot_product"), ("data", "row_length", 32)],
)
def test_a_configuration_of_another_run_is_refused(run, group, name, value):
    """Catches a changed network of the same shapes, which translates without a word."""
    change_config(run, group, name, value)
    with pytest.raises(ValueError, match=rf"config.json has {group}.{name}={value!r}, but the"):
        restore(run)


def test_a_changed_search_is_named_and_a_changed_seed_is_none_of_a_readers_business(run):
    """Catches a beam that was changed on purpose and is refused, or used without a word."""
    change_config(run, "decoding", "beam_size", 3)
    change_config(run, "training", "seed", 7)
    with pytest.warns(UserWarning, match="decoding.beam_size is 3 in config.json and was 2 when"):
        assert restore(run).config.decoding.beam_size == 3


@pytest.mark.parametrize("harm", ["exchanged", "misspelt", "missing"])
def test_a_vocabulary_of_another_run_is_refused(run, harm):
    """Catches two pieces that have changed places: every translation would be wrong."""
    (file,) = run.glob("tokenizer.*")
    lines = file.read_text().split("\n")
    if harm == "exchanged":
        lines[-3], lines[-4] = lines[-4], lines[-3]
    else:
        lines[-3] += "x"
    file.write_text("\n".join(lines))
    if harm == "missing":
        file.rename(run / "other.vocab")
    message = r"holds no tokenizer|tokenizer\.\w+ is (not the file|missing)"
    with pytest.raises(ValueError, match=message):
        restore(run)


def test_a_vocabulary_beside_that_of_the_run_is_refused(run):
    """Catches a second tokenizer in the folder, of which either might be taken."""
    (run / "tokenizer.chars").write_text("a\nb\n")
    with pytest.raises(ValueError, match=r"tokenizer\.chars was not there when"):
        restore(run)


def test_classes_of_another_run_are_refused(tmp_path):
    """Catches two class names that have changed places."""
    run = write_run(tmp_path / "run", "classification")
    file = run / "classes.json"
    file.write_text(file.read_text().replace('"no", "yes"', '"yes", "no"'))
    with pytest.raises(ValueError, match=r"classes\.json is not the file that the"):
        restore(run)


def test_a_renamed_step_is_not_taken_for_another(run):
    """Catches step 60 under the name of 80, from which training would go on in the wrong place."""
    (run / "checkpoints" / "60").rename(run / "checkpoints" / "80")
    with pytest.warns(UserWarning, match="Checkpoint 80 cannot be used.*holds .* of step 60"):
        assert restore(run, "last").step == 40


def test_a_checkpoint_of_another_run_is_left_out(run, tmp_path):
    """Catches a folder that was copied from a run of another network of the same shapes."""
    other = write_run(tmp_path / "other", steps=(60,), attention="dot_product")
    shutil.rmtree(run / "checkpoints" / "60")
    shutil.copytree(other / "checkpoints" / "60", run / "checkpoints" / "60")
    with pytest.warns(UserWarning, match="Checkpoint 60 cannot be used: .*model.attention"):
        assert restore(run, "last").step == 40


def damage(run, step):
    for file in (run / "checkpoints" / str(step)).rglob("d/*"):
        file.write_bytes(b"")


def test_the_next_best_stands_in_for_a_damaged_best(run):
    """Catches an evaluation that fails although another checkpoint is whole, or hides which."""
    damage(run, 20)
    with pytest.warns(UserWarning, match="Checkpoint 20 cannot be used"):
        assert restore(run, "best").checkpoint == "best of those intact (40)"
    with (
        pytest.warns(UserWarning, match="Checkpoint 20"),
        pytest.raises(ValueError, match="could be restored"),
    ):
        restore(run, 20)


def test_a_mean_is_one_of_the_checkpoints_that_are_intact(run):
    """Catches a mean that counts a damaged checkpoint, or that fails for it."""
    damage(run, 40)
    with pytest.warns(UserWarning, match="Checkpoint 40 cannot be used"):
        mean = restore(run, "average:3")
    assert (mean.checkpoint, mean.num_averaged) == ("mean of 2 (20 to 60)", 2)
    ends = (restore(run, step).params["decoder"] for step in (20, 60))
    first, last = (next(iter(end["layer_0"]["feed_forward"].values())) for end in ends)
    found = next(iter(mean.params["decoder"]["layer_0"]["feed_forward"].values()))
    np.testing.assert_allclose(found["kernel"], (first["kernel"] + last["kernel"]) / 2, rtol=1e-6)


def test_altered_scores_choose_no_best(run):
    """Catches one digit of a score that makes another checkpoint the best."""
    file = run / "checkpoints" / "scores.json"
    file.write_text(file.read_text().replace("-60.0", "-10.0"))
    with pytest.warns(UserWarning, match=r"scores\.json cannot be used"):
        checkpoints = Checkpoints(run / "checkpoints", keep=3)
    assert checkpoints.best_step() is None
    checkpoints.record_score(40, -40.0)
    assert Checkpoints(run / "checkpoints", keep=3, read_only=True).best_step() == 40


def test_scores_that_are_missing_are_missed(run):
    """Catches a lost file that silently makes the last checkpoint the answer."""
    (run / "checkpoints" / "scores.json").unlink()
    with pytest.warns(UserWarning, match=r"scores\.json cannot be used \(there is no such file\)"):
        assert restore(run).checkpoint == "last (60)"


def test_scores_that_cannot_be_read_now_choose_no_other_checkpoint(run, monkeypatch):
    """Catches a disk that fails for a moment and makes the last checkpoint the answer."""

    def fail(path):
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(score_file, "read_file", fail)
    with pytest.raises(OSError, match=r"Input/output error: .*scores\.json"):
        restore(run)


def test_a_newer_format_names_the_version_that_wrote_it(run):
    """Catches training that goes on from before what a newer version trained, with a warning."""
    file = max((run / "checkpoints").glob("*/about/metadata"), key=lambda path: int(path.parts[-3]))
    about = json.loads(file.read_text())
    newer = {"format": FORMAT + 1, "version": "9.0", "checksum": "of another kind"}
    file.write_text(json.dumps(about | newer))
    with pytest.raises(
        ValueError, match=r"Checkpoint \d+ of .* version 9\.0 .* install that version"
    ):
        restore(run, "last")
    file.write_text(json.dumps(about | {"format": FORMAT + 1}))  # a flipped bit, and no newer one
    with pytest.warns(UserWarning, match="notes .* are not those that were saved"):
        restore(run, "last")
