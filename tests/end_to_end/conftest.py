"""One run of a tiny model, trained by train.py as a user starts it and shared by all tests here."""

import pytest

from tests.helpers.scripts import run, write_config
from tests.helpers.shared import make_once


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """A folder with `tiny.py`, its corpus, and the finished `run` of 300 steps; only to be read."""

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
