"""Commands that are called in this process, and work directories with nothing but a config."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from transformer.config import Config


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def call(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Calls main(["command", *arguments]) of a command, which is alone, as JAX runs already."""
    monkeypatch.setattr("transformer.parallel.hosts.connect", lambda *_, **__: True)

    def call(main: Callable[[Sequence[str]], int], *arguments: str) -> Ended:
        try:
            code = main(["command", *arguments])
        except SystemExit as end:
            code = end.code
        return Ended(code, *capfd.readouterr())

    return call


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., str]:
    """Makes a work directory of a task, with no more in it than a wrong command reads."""

    def make_run(task: str = "translation") -> str:
        folder = tmp_path / task
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(Config(task=task).to_json())
        return str(folder)

    return make_run
