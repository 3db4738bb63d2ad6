"""Work directories with nothing but a config."""

import pytest

from transformer.config import Config


@pytest.fixture
def make_run(tmp_path):
    """Makes a work directory of a task, with no more in it than a wrong command reads."""

    def make_run(task="translation"):
        folder = tmp_path / task
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(Config(task=task).to_json())
        return folder

    return make_run
