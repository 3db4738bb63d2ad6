"""Every mistake gets one sentence and exit code 2, and leaves nothing behind."""

import pytest

from tests.cli.mistakes import BEGIN, CONFIG_FILES, CORPORA, END, EVALUATE, TRAIN
from tests.helpers.commands import call
from transformer.config import Config
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch):
    """Ends what is no mistake any more, which would train for minutes."""
    monkeypatch.setattr(Trainer, "run", lambda *_: pytest.fail("it was accepted, and trains"))


def assert_refused(ended, said):
    code, out, err = ended
    assert (code, out) == (2, b""), ended
    *before, last = err.splitlines()  # on a busy machine the phases that took long come before
    assert last.startswith("error: ") and said in last, err
    assert not any(line.startswith(("error", "Traceback", "  ")) for line in before)


@pytest.mark.parametrize(("words", "said"), TRAIN)
def test_of_the_train_command(tmp_path, words, said):
    """Catches a misspelt setting that trains something else, or ends in a stack trace."""
    assert_refused(call("train.py", f"--workdir={tmp_path / 'new'}", *words), said)


@pytest.mark.parametrize(("text", "said"), CONFIG_FILES)
def test_in_a_configuration_file(tmp_path, text, said):
    """Catches a setting that a file misspells and that has no effect, and a stack trace of ours."""
    file = tmp_path / "mine.py"
    file.write_text(text)
    assert_refused(call("train.py", f"--config={file}", f"--workdir={tmp_path}"), said)


def test_all_mistakes_of_a_configuration_file_are_named_at_once(tmp_path):
    """Catches a file that needs a start for each of its mistakes."""
    file = tmp_path / "mine.py"
    lines = ["model.num_layers = 0", "model.dmodel = 64", "model.norm = 'both'", "data.cache = 1"]
    body = [*(f"config.{line}" for line in lines), "1 / 0"]
    file.write_text(BEGIN + "\n    ".join(body) + END)
    code, _, err = call("train.py", f"--config={file}", f"--workdir={tmp_path}")
    starts = [f"error: {file}, line {n}, {line}: " for n, line in enumerate(body[1:], 5)]
    assert code == 2
    for said, start in zip(err.splitlines(), starts, strict=True):
        assert said.startswith(start)


@pytest.mark.parametrize(("task", "words", "said"), EVALUATE)
def test_of_the_evaluate_command(tmp_path, task, words, said):
    """Catches a flag without effect that goes unnoticed, and a sentence that is a stack trace."""
    WorkDir(tmp_path).save_config(Config(task=task))
    assert_refused(call("eval.py", f"--workdir={tmp_path}", *words), said)


@pytest.mark.parametrize(("files", "words", "said"), CORPORA)
def test_of_a_corpus(tmp_path, files, words, said):
    """Catches a text that is found wrong after the compile, and a folder left by the attempt."""
    corpus, workdir = tmp_path / "corpus", tmp_path / "runs" / "mine"
    corpus.mkdir()
    for name, text in files.items():
        (corpus / name).write_text(text)
    words = [f"--workdir={workdir}", f"--config.data.corpus={corpus}", *words]
    assert_refused(call("train.py", *words), said)
    assert not workdir.parent.exists()


def test_an_output_that_is_a_file_of_the_run(tmp_path):
    """Catches a configuration that is replaced by translations."""
    WorkDir(tmp_path).save_config(Config())
    (tmp_path / "results").mkdir()
    for name in ("config.json", "results/x", "tokenizer.model", "curves.png"):
        words = ["--input=Makefile", "--overwrite", f"--output={tmp_path / name}"]
        words = [f"--attention={tmp_path / name}"] if name == "curves.png" else words
        ended = call("eval.py", f"--workdir={tmp_path}", *words)
        assert_refused(ended, "is a file of the run itself")
