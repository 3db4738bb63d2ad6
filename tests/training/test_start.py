"""Training goes on only with what the run began with: its text, its config.json, its records."""

import pytest

import transformer
from tests.helpers.tiny_runs import small_language_model
from transformer.training.start import FLAG
from transformer.workdir import WorkDir

TEXT = "abcdefgh\n" * 60


def train(folder, num_train_steps, **options):
    config = small_language_model(folder / "text.txt")
    config.data.train_split, config.training.num_train_steps = "all[:80%]", num_train_steps
    config.data.validation_split = config.data.test_split = "all[80%:]"
    return transformer.train(config, folder / "run", **options)


@pytest.fixture
def begun(tmp_path):
    """A run of two steps, and its text beside it."""
    (tmp_path / "text.txt").write_text(TEXT)
    assert train(tmp_path, 2).is_finished
    return tmp_path


CHANGED_TEXT = TEXT + "hgfedcba\n" * 15  # the last fifth is the validation text


@pytest.mark.long
def test_a_changed_text_that_is_meant_becomes_that_of_the_run(begun):
    """Catches a run that is refused its own text after `accept_changed_text`."""
    (begun / "text.txt").write_text(CHANGED_TEXT)
    assert train(begun, 4, accept_changed_text=True).step == 4
    assert "as asked by" in (begun / "run" / "log.txt").read_text()
    assert train(begun, 5).step == 5  # from now on the changed text is that of the run


def test_text_settings_and_files_of_another_run_are_not_trained_on(begun):
    """Catches a run that goes on with a text, a seed or a vocabulary that was changed, and a
    config.json that is lost and written anew, perhaps another one."""
    (begun / "text.txt").write_text(CHANGED_TEXT)
    with pytest.raises(ValueError, match=rf"not the one that step 2 was .* with {FLAG}"):
        train(begun, 4)
    (begun / "text.txt").write_text(TEXT)
    file = begun / "run" / "config.json"
    written = file.read_text()
    file.write_text(written.replace('"seed": 0', '"seed": 7'))
    changed = WorkDir(begun / "run").load_config().with_values({"training.num_train_steps": 4})
    with pytest.raises(ValueError, match=r"config.json has training.seed=7, but .* with 0: put"):
        transformer.train(changed, begun / "run")
    file.write_text(written)
    (begun / "run" / "classes.json").write_text("{}")
    with pytest.raises(ValueError, match=r"classes.json is not the file that the checkpoints"):
        train(begun, 4)
    file.unlink()
    with pytest.raises(ValueError, match="holds checkpoints but no config"):
        train(begun, 4)
    assert not file.exists()


def test_lost_records_are_said(begun, capsys):
    """Catches curves that lose their beginning without a word."""
    file = begun / "run" / "metrics.jsonl"
    file.write_text(file.read_text().partition("\n")[2])
    assert train(begun, 4).step == 4
    said = "metrics.jsonl no longer holds the 2 records that it had at step 2"
    assert said in capsys.readouterr().err
