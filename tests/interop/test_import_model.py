"""Importing a model as a run: what is said, what is written, and what is refused."""

import json

import numpy as np
import pytest

import transformer
from tests.helpers.imported import GOLDEN, changed_folder
from tools.golden_translation import EXTRA, SENTENCES
from transformer.cli.commands.import_model import main
from transformer.interop.import_model import import_model, read_folder
from transformer.parallel.stopping import Interruption
from transformer.workdir import WorkDir

MARIAN, M2M100 = GOLDEN / "marianmt_shared", GOLDEN / "m2m100"


@pytest.mark.long
def test_a_run_of_opus_mt_translates(tmp_path):
    """Catches a run that is not what the folder held, or that nobody tells how to use."""
    run = tmp_path / "run"
    said = import_model(MARIAN, run, check=False)
    assert said[0].startswith(f"{run}: translation from en to de, ")
    assert f"--workdir={run} --input=FILE" in "\n".join(said)
    assert f"fine_tune.py:{run}" in said[-1]
    translator = transformer.Translator.from_checkpoint(run, batch_size=4)
    found = translator.translate(SENTENCES, max_extra_length=EXTRA)
    expected = json.loads((MARIAN / "expected.json").read_text())["4"]
    assert [translation.text for translation in found] == expected["texts"]
    with pytest.raises(ValueError, match="is a work directory of this package"):
        read_folder(run)
    with pytest.raises(ValueError, match="exists already; name a new folder"):
        import_model(MARIAN, run)


@pytest.mark.parametrize(
    "name, task",
    [
        ("marian_joint", "translation"),
        ("bert", "masked_lm"),
        ("gpt2", "language_model"),
        ("vit", "images"),
    ],
)
def test_every_folder_is_recognised(tmp_path, name, task):
    """Catches a model whose reader nobody calls, and a run that lacks its classes or its uses."""
    said = import_model(GOLDEN / name, tmp_path / "run", check=False)
    assert task.replace("_", " ") in said[0]
    end = " --config.task=classification" if task == "masked_lm" else ""
    assert said[-1].endswith(f"--workdir=NEW{end} --config.data.corpus=CORPUS")
    restored = transformer.restore(tmp_path / "run")
    assert (restored.config.task, restored.step) == (task, 0)
    assert restored.labels == read_folder(GOLDEN / name).labels


def test_an_import_that_is_stopped_leaves_nothing(tmp_path, monkeypatch):
    """Catches half a folder, because of which the same command is refused."""
    run = tmp_path / "run"

    def stop(*args):
        raise Interruption

    with monkeypatch.context() as patched, pytest.raises(Interruption):
        patched.setattr(WorkDir, "save_config", stop)
        import_model(MARIAN, run, check=False)
    assert not any(tmp_path.iterdir())
    assert import_model(MARIAN, run, check=False)


def test_what_is_no_known_folder_is_refused(tmp_path):
    """Catches a model that is taken for another, and a folder that is made for none."""
    run, other = tmp_path / "run", tmp_path / "t5"
    other.mkdir()
    (other / "config.json").write_text('{"model_type": "t5"}')
    for folder, languages, expected in [
        (tmp_path / "nothing", {}, "is no local folder"),
        ("gs://bucket/model", {}, "is no local folder"),
        (tmp_path, {}, "neither config.json, as Hugging Face has, nor decoder.yml"),
        (other, {}, "A model of type t5 is not known; known are marian, m2m_100"),
        (GOLDEN / "bert", {"source_language": "en"}, "of type bert, which has no languages"),
        (M2M100, {}, f"{M2M100}: This model needs source_language"),
    ]:
        with pytest.raises(ValueError, match=expected):
            import_model(folder, run, **languages)
    assert not run.exists()


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"encoder_ffn_dim": 20, "decoder_ffn_dim": 20}, r"feed_forward.* \(20,\), but is \(24,\)"),
        (
            {"add": {"model.shared.weight": np.zeros((8, 16))}},
            r"shared_embedding/table must be \(57, 16\)",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_found_before_anything_is_written(tmp_path, changes, problem):
    """Catches a run that can be written and not restored."""
    folder = changed_folder(MARIAN, tmp_path / "folder", **changes)
    with pytest.raises(ValueError, match=problem):
        import_model(folder, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_command(tmp_path, capfd):
    """Catches flags that the function does not get, and mistakes without a sentence."""
    words = ["transformer-import", str(GOLDEN / "nllb"), str(tmp_path / "run"), "--nocheck"]
    assert main([*words, "--source_language=eng_Latn", "--target_language=deu_Latn"]) == 0
    assert "translation from eng_Latn to deu_Latn" in capfd.readouterr().err
    for wrong, expected in [
        (words, "exists already"),
        (words[:2], "takes FOLDER WORKDIR, not"),
        ([*words, "--language=de"], "did you mean --"),
    ]:
        with pytest.raises(SystemExit) as end:
            main(wrong)
        assert end.value.code == 2
        assert expected in capfd.readouterr().err
    assert main(["transformer-import", "--help"]) == 0
    assert "--source_language=NAME" in capfd.readouterr().out
