"""Runs of tiny models that all tests here share; none may write into them."""

import os
import shutil

import pytest
from filelock import FileLock

from tests.helpers.scripts import run, write_config
from tests.helpers.tiny_runs import CHARACTERS, SPLITS, train, write_sentences


def make_once(tmp_path_factory, name, make):
    """Returns a folder that `make(folder)` has filled; nobody may write into it afterwards."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a folder of its own below it
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with `tiny.py`, its corpus and its finished `run`, started as a user does."""

    def make(folder):
        config = write_config(folder)
        code, out, err = run("train.py", f"--config={config}", f"--workdir={folder / 'run'}")
        assert (code, out) == (0, b""), err
        (folder / "said.txt").write_text(err)

    return make_once(tmp_path_factory, "tiny", make)


@pytest.fixture(scope="session")
def config(tiny):
    """The path to the configuration of the tiny run."""
    return tiny / "tiny.py"


@pytest.fixture(scope="session")
def finished(tiny):
    """The work directory of a run that nobody disturbed."""
    return tiny / "run"


@pytest.fixture(scope="session")
def classes(tmp_path_factory):
    """A classifier of sentences with an x and without."""

    def make(folder):
        corpus = write_sentences(folder / "corpus")
        code, err = train(folder / "run", "classification", corpus, *SPLITS, CHARACTERS)
        assert code == 0 and "2 classes" in err, err

    return make_once(tmp_path_factory, "classes", make) / "run"


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    """A language model of the alphabet, again and again, in lines."""

    def make(folder):
        (folder / "text.txt").write_text("abcdefgh\n" * 400)
        settings = [split.replace("train[", "all[") for split in SPLITS]
        settings += [CHARACTERS, "training.label_smoothing=0.0"]
        code, err = train(folder / "run", "language_model", folder / "text.txt", *settings)
        assert code == 0, err

    return make_once(tmp_path_factory, "text", make) / "run"
