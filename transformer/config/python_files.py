"""Configurations that are Python files: one with `get_config()`, or the name of a shipped one."""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType

import transformer
from transformer.config.experiment import Config
from transformer.config.setting import naming_all_mistakes
from transformer.console import say

DEFAULT_CONFIG = "configs/embedded_en_de.py"


def load_config_file(path: str, argument: str = "") -> Config:
    """Runs a Python file and returns what its `get_config` returns.

    argument: what it is called with, if not empty. Raises ValueError, which names the file and the
    line of each mistake.
    """
    with explaining_errors(path):
        get_config = getattr(run_file(path), "get_config", None)
        if not callable(get_config):
            raise ValueError("it must define get_config(), which returns a Config.")
        arguments = [argument] if argument else []
        try:
            inspect.signature(get_config).bind(*arguments)
        except TypeError:
            needed = f"an argument: --config={path}:ARGUMENT"
            way_out = f"takes no argument: leave out :{argument}" if argument else f"needs {needed}"
            raise ValueError(f"get_config() {way_out}.") from None
        config = get_config(*arguments)
        if not isinstance(config, Config):
            raise ValueError(f"get_config() must return a Config, not {config!r}.")
        return config


def run_file(path: str) -> ModuleType:
    """Runs a Python file, which may import the shipped configurations, and returns its module.

    Nothing is kept beside it in __pycache__, which could hold damaged code.
    """
    if "configs" not in sys.modules and not importlib.util.find_spec("configs"):
        package = ModuleType("configs")  # outside of a checkout
        package.__path__ = sorted({str(file.parent) for file in shipped_configs()})
        sys.modules["configs"] = package
    file = str(Path(path).absolute())
    module = ModuleType(f"config_file_{Path(path).stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(Path(path).read_bytes(), file, "exec"), module.__dict__)
    return module


@contextmanager
def explaining_errors(path: str) -> Generator[None]:
    """Turns the errors in the Python file `path` into one ValueError with a line for each.

    A line names the file, the line in it and its code. Wrong names and values of settings do not
    end the file, so that all of them are named at once.
    """
    with naming_all_mistakes(partial(_explain, path)) as mistakes:
        try:
            yield
        except Exception as error:
            mistakes.append((error, traceback.extract_tb(error.__traceback__)))


def _explain(path: str, error: Exception, stack: traceback.StackSummary) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {error.msg}: {(error.text or '').strip()}"
    reason = str(error) or type(error).__name__
    if not isinstance(error, ValueError | AttributeError):
        reason = f"{type(error).__name__}: {reason}"
    file = str(Path(path).absolute())
    frames = [frame for frame in stack if frame.filename == file]
    if frames and frames[-1].line and not frames[-1].line.startswith("raise "):
        path = f"{path}, line {frames[-1].lineno}, {frames[-1].line}"
    return f"{path}: " + reason.replace("\n", f"\n{path}: ")


def find_config(value: str, flag: str = "config") -> str:
    """Returns the path to a configuration, or to the one of that name that this package ships.

    value: PATH or PATH:ARGUMENT, the argument being that of `get_config`. flag: names it in errors.
    """
    name, colon, argument = value.partition(":")
    path = Path(name)
    if path.suffix == ".py" and path.is_file():
        return value
    shipped = {f"configs/{file.name}": file for file in shipped_configs()}
    for wanted in (name, f"configs/{name}", f"configs/{name}.py"):
        if wanted in shipped:
            if value != DEFAULT_CONFIG:
                say(f"--{flag}={name} is not a file here; taking {shipped[wanted]}")
            return f"{shipped[wanted]}{colon}{argument}"
    raise ValueError(
        f"--{flag} must name a Python file with get_config(), not {name}; shipped "
        f"are {', '.join(shipped)}."
    )


def shipped_configs() -> list[Path]:
    """Returns the configurations of an installed package, or of the checkout that it lies in."""
    package = Path(transformer.__file__).parent
    folders = package / "configs", package.parent / "configs"
    return next((sorted(f.glob("*.py")) for f in folders if f.is_dir()), [])
