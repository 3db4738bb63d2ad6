"""The commands that are printed to be pasted: they run here, with the Python that runs now."""

import os
import shlex
import shutil
import sys
from pathlib import Path

import transformer
from transformer.tasks.next_commands import NextCommands

CHECKOUT = Path(transformer.__file__).resolve().parents[1]


def this_command() -> str:
    """Returns the command line that started this process, ready for a shell."""
    if _is_installed():
        return shlex.join([_installed(Path(sys.argv[0]).name), *sys.argv[1:]])
    return shlex.join([_python(), *sys.orig_argv[1:]])


def evaluate_command(workdir: str, *arguments: str) -> str:
    """Returns the evaluate command for a run, ready for a shell."""
    script = Path(sys.argv[0]).with_name("eval.py")
    if _is_installed():
        words = [_installed("transformer-eval")]
    elif script.is_file() and script.resolve().parent == CHECKOUT:
        words = [_python(), str(script)]
    else:
        words = [_python(), "-m", "transformer.cli.commands.evaluate"]
    return shlex.join([*words, f"--workdir={workdir}", *arguments])


def next_command_lines(workdir: str, examples: NextCommands) -> list[str]:
    """Returns the commands that use what was trained, ready for a shell."""
    commands = [evaluate_command(workdir)]
    if examples.input_line:
        command = evaluate_command(workdir, "--input=-")
        commands.append(f"echo {shlex.quote(examples.input_line)} | {command}")
    if examples.python:
        commands.append(shlex.join([_python(), "-c", examples.python]))
    return ["", "next:", *(f"  {command}" for command in commands)]


def _is_installed() -> bool:
    """Whether this process is one of the commands that `pip install` makes."""
    return Path(sys.argv[0]).name.startswith("transformer-")


def _installed(name: str) -> str:
    """Returns a command that `pip install` made, by its name or its path."""
    return _program(str(Path(sys.argv[0]).with_name(name)), name)


def _python() -> str:
    """Returns the interpreter that runs, as it was typed, or by its name."""
    typed = sys.orig_argv[0]
    return _program(typed, "python") if "/" in typed else typed


def _program(path: str, name: str) -> str:
    """Returns the name of a program if a shell finds it by that, else its path."""
    return name if shutil.which(name) == os.path.abspath(path) else path
