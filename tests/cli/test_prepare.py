"""The prepare command leaves what training then finds, alone or in parts."""

import signal

import pytest

from tests.helpers.commands import call
from tests.helpers.scripts import finish, start, write_config
from transformer.config.python_files import load_config_file
from transformer.data.corpora import pair_files
from transformer.data.corpora.training_text import TrainingText
from transformer.data.prepared.prepare import Share, training_corpus


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The words after the command, of a corpus in five parts."""
    monkeypatch.setattr(pair_files, "PAIRS_OF_BLOCK", 90)
    return [f"--config={write_config(tmp_path)}", f"--workdir={tmp_path / 'runs' / 'mine'}"]


def open_prepared(tmp_path):
    """What a run with that configuration and work directory finds."""
    config = load_config_file(str(tmp_path / "tiny.py")).validate()
    workdir, text = tmp_path / "runs" / "mine", TrainingText(config.data)
    return training_corpus(config, text, workdir, None, Share())[1]


@pytest.mark.parametrize("flags", [[""], ["--part=2/2", "--part=1/2"], ["--part=1/2", ""]])
def test_training_finds_what_was_prepared(words, flags, monkeypatch, tmp_path):
    """Catches a key, a place or a vocabulary that is another in the command than in training."""
    ended = [call("transformer-prepare", *words, *filter(None, [flag])) for flag in flags]
    assert [code for code, _, _ in ended] == [0] * len(flags), ended
    *before, last = [err for _, _, err in ended]
    assert all("is prepared and others are not" in err for err in before)
    assert "training pairs; left out: " in last
    monkeypatch.setattr(TrainingText, "blocks", lambda *_: pytest.fail("the text is read"))
    assert len(open_prepared(tmp_path).source) > 380
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "prepared_corpora" and folder.stat().st_mode & 0o077 == 0


def test_what_nobody_reads_is_not_prepared(words):
    """Catches parts that are none, and a preparation that the task does not read."""
    wrong = dict.fromkeys(["0/2", "3/2", "2", "a/b", "1/0"], "--part must be K/N")
    wrong = {f"--part={part}": said for part, said in wrong.items()}
    for word, said in {**wrong, "--config.task=language_model": "not of language_model"}.items():
        code, _, err = call("transformer-prepare", *words, word)
        assert code == 2 and said in err, word


KILLED = """
import os, signal
from transformer.data.corpora import pair_files, training_text
from transformer.data import workers

pair_files.PAIRS_OF_BLOCK, training_text.SMALL_TEXT = 90, 0
ask, answers = workers._ask, []

def ask_and_end(*arguments):
    answers.append(ask(*arguments))
    if len(answers) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return answers[-1]

workers._ask = ask_and_end
"""


@pytest.mark.long
def test_a_killed_process_leaves_parts_and_no_workers(words, tmp_path):
    """Catches parts that are taken for the whole, and processes that go on for ever."""
    words = [*words, "--config.data.prepare_workers=2"]
    process = start("transformer/cli/commands/prepare.py", *words, patch=KILLED)
    ((code, err),) = finish([process])  # when the workers, which share its streams, have ended
    assert code == -signal.SIGKILL, err
    (folder,) = (tmp_path / "runs" / "prepared_corpora").glob("corpus-*")
    assert list(folder.glob("*.arrow")) and not (folder / "header.json").exists()
    assert len(open_prepared(tmp_path).source) > 380
