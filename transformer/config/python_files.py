"""Configurations that are Python files: one with `get_config()`, or the name of a shipped one."""

import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Self

import transformer
from transformer.config.experiment import Config
from transformer.config.setting import ON_ASSIGNMENT
from transformer.console import say

DEFAULT_CONFIG = "configs/embedded_en_de.py"


def load_config_file(path: str, argument: str = "") -> Config:
    """Runs a Python file and returns what its `get_config` returns.

    argument: what it is called with, if not empty. Raises ValueError, with a line for each mistake
    that names the file and the line, whatever is wrong in the file.
    """
    with _Assignments(path) as assignments, explaining_errors(path):
        get_config = getattr(run_file(path), "get_config", None)
        if not callable(get_config):
            raise ValueError("it must define get_config(), which returns a Config.")
        config = get_config(*_arguments(get_config, path, argument))
        if not isinstance(config, Config):
            raise ValueError(f"get_config() must return a Config, not {config!r}.")
    assignments.check(config)
    return config


def run_file(path: str) -> ModuleType:
    """Runs a Python file, which may import the shipped configurations, and returns its module.

    Nothing is kept beside it in __pycache__, which could hold damaged code.
    """
    _make_configs_importable()
    file = str(Path(path).absolute())
    module = ModuleType(f"config_file_{Path(path).stem}")
    module.__file__ = file
    sys.modules[module.__name__] = module
    exec(compile(Path(path).read_bytes(), file, "exec"), module.__dict__)
    return module


class _Assignments:
    """Notes which line of a configuration file sets what, and the names that it misspells."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lines: dict[str, int] = {}
        self._misspelt: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        self._token = ON_ASSIGNMENT.set(self._note)
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        """Adds the names misspelt so far to the error that ends the file."""
        ON_ASSIGNMENT.reset(self._token)
        if isinstance(error, ValueError) and self._misspelt:
            raise ValueError("\n".join([*self._located(self._misspelt), str(error)])) from error

    def _note(self, name: str, mistake: str) -> None:
        frame, file = sys._getframe(), str(Path(self.path).absolute())
        while frame and frame.f_code.co_filename != file:
            frame = frame.f_back
        line = frame.f_lineno if frame else 0
        if mistake:
            self._misspelt.append((line, mistake))
        else:
            self._lines[name] = line

    def check(self, config: Config) -> None:
        """Raises ValueError for misspelt names and for values that settings cannot have."""
        wrong = config.wrong_values().items()
        mistakes = [(self._lines.get(name, 0), sentence) for name, sentence in wrong]
        if mistakes := sorted(self._misspelt + mistakes):
            raise ValueError("\n".join(self._located(mistakes)))

    def _located(self, mistakes: list[tuple[int, str]]) -> list[str]:
        return [_locate(self.path, line, sentence) for line, sentence in mistakes]


@contextmanager
def explaining_errors(path: str) -> Generator[None]:
    """Turns an error in the Python file `path` into a ValueError that names it and the line."""
    try:
        yield
    except Exception as error:
        raise ValueError(_explain_error(path, error)) from error


def _arguments(get_config: Callable[..., object], path: str, argument: str) -> list[str]:
    """Returns what to call `get_config` with; raises ValueError if it takes no argument."""
    parameters = inspect.signature(get_config).parameters.values()
    if argument and not parameters:
        raise ValueError(f"get_config() takes no argument: leave out :{argument}.")
    if not argument and any(parameter.default is parameter.empty for parameter in parameters):
        raise ValueError(f"get_config() needs an argument: --config={path}:ARGUMENT.")
    return [argument] if argument else []


def _explain_error(path: str, error: Exception) -> str:
    """Returns a sentence on an error in a configuration file: where, what, and the line."""
    reason = str(error) or type(error).__name__
    if not isinstance(error, ValueError | AttributeError | SyntaxError):
        reason = f"{type(error).__name__}: {reason}"
    if isinstance(error, SyntaxError):
        code = (error.text or "").strip()
        return f"{error.filename}, line {error.lineno}: {error.msg}: {code}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename) == Path(path).absolute()]
    return _locate(path, lines[-1] if lines and lines[-1] else 0, reason)


def _locate(path: str, line: int, reason: str) -> str:
    """Returns what is wrong in a file with the line and its code. line: 0 if it is not known."""
    code = linecache.getline(str(Path(path).absolute()), line).strip()
    if not line or code.startswith("raise "):  # the file explains itself
        return f"{path}: {reason}"
    return f"{path}, line {line}, {code}: {reason}"


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


def _make_configs_importable() -> None:
    """Lets `from configs import …` find the shipped configurations outside of a checkout too."""
    if "configs" not in sys.modules and not importlib.util.find_spec("configs"):
        package = ModuleType("configs")
        package.__path__ = sorted({str(file.parent) for file in shipped_configs()})
        sys.modules["configs"] = package
