"""The commands that are printed run when they are pasted."""

import subprocess
import sys

import pytest

from tests.helpers.scripts import ROOT
from transformer.tasks.next_commands import NextCommands
from transformer.training.next_commands import (
    evaluate_command,
    next_command_lines,
    this_command,
)


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Pretends that this process was started by a command line, in the checkout."""

    def start(*words: str) -> None:
        number = 2 if words[1].startswith("/") or words[1].endswith(".py") else 3
        monkeypatch.setattr(sys, "orig_argv", list(words))
        monkeypatch.setattr(sys, "argv", [words[number - 1], *words[number:]])

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))
    return start


def install(folder, *names):
    """Makes programs of these names in a folder."""
    for name in names:
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("")
        (folder / name).chmod(0o755)


def test_commands_are_quoted_for_a_shell(started):
    """Catches a command that a space or a quotation mark in a name breaks."""
    started("python3", "train.py", "--workdir=my run")
    assert this_command() == "python3 train.py '--workdir=my run'"
    assert next_command_lines("my run", NextCommands("it's", "print('a')"))[2:] == [
        "  python3 eval.py '--workdir=my run'",
        "  echo 'it'\"'\"'s' | python3 eval.py '--workdir=my run' --input=-",
        "  python3 -c 'print('\"'\"'a'\"'\"')'",
    ]


def test_the_interpreter_is_the_one_that_was_typed(started, tmp_path):
    """Catches `python`, which has no jax after make has installed everything into .venv."""
    started(".venv/bin/python", "train.py")
    assert this_command() == ".venv/bin/python train.py"
    assert evaluate_command("x") == ".venv/bin/python eval.py --workdir=x"
    install(tmp_path, "python")
    started(f"{tmp_path}/python", "train.py")
    assert this_command() == "python train.py"


def test_installed_commands_go_by_their_names(started, tmp_path):
    """Catches train.py where only transformer-train exists, and a name that no shell finds."""
    install(tmp_path, "transformer-train", "transformer-eval", "python")
    started(f"{tmp_path}/python", f"{tmp_path}/transformer-train", "--workdir=x")
    assert this_command() == "transformer-train --workdir=x"
    assert next_command_lines("x", NextCommands(python="1"))[2:] == [
        "  transformer-eval --workdir=x",
        "  python -c 1",
    ]
    install(tmp_path / "venv", "transformer-eval")
    started(f"{tmp_path}/venv/python", f"{tmp_path}/venv/transformer-train")
    assert evaluate_command("x") == f"{tmp_path}/venv/transformer-eval --workdir=x"


def test_modules_and_programs_of_ones_own(started, tmp_path):
    """Catches the eval.py of another project, and -m that is lost."""
    started("python", "-m", "transformer.cli.commands.train", "--workdir=x")
    sys.argv[0] = str(ROOT / "transformer" / "cli" / "train.py")
    assert this_command() == "python -m transformer.cli.commands.train --workdir=x"
    assert evaluate_command("x") == "python -m transformer.cli.commands.evaluate --workdir=x"
    install(tmp_path, "train.py", "eval.py")
    started("python", f"{tmp_path}/train.py")
    assert evaluate_command("x") == "python -m transformer.cli.commands.evaluate --workdir=x"


@pytest.mark.parametrize("module", ["train", "evaluate"])
def test_the_modules_run(module):
    """Catches `python -m transformer.cli.…`, which is printed, and does nothing at all."""
    command = [sys.executable, "-m", f"transformer.cli.commands.{module}", "--version"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    assert ended.stdout.startswith("transformer ")
