"""Which configuration a command line means: a file with `get_config()`, or that of a run."""

import importlib.util
import inspect
import linecache
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import transformer
from transformer.cli.flags import flag
from transformer.config import Config
from transformer.console import say
from transformer.workdir import WorkDir

DEFAULT_CONFIG = "configs/embedded_en_de.py"
REGISTER = flag(
    "",
    "Python files to run first, which register attention functions, tasks, metrics and the like "
    "(transformer.register_…).",
    metavar="FILES",
)


def choose_config(name: str | None, workdir: str) -> Config:
    """Returns the configuration that --config=NAME and --workdir mean together.

    name: a file or the name of a shipped one, perhaps with :ARGUMENT for its `get_config`. None is
    the configuration of the run in `workdir`, or `DEFAULT_CONFIG` where there is none yet. Raises
    ValueError.
    """
    if name is None and (run := WorkDir(workdir)).has_run:
        say(f"no --config: going on with {run.path / 'config.json'}")
        return run.load_config()
    path, _, argument = find_config(name or DEFAULT_CONFIG).partition(":")
    return load_config_file(path, argument)


def load_config_file(path: str, argument: str = "") -> Config:
    """Runs a Python file and returns what its `get_config` returns.

    argument: what it is called with, if not empty. Raises ValueError, which names the file and the
    line, if that fails, whatever is wrong in the file.
    """
    with explaining_errors(path):
        get_config = getattr(run_file(path), "get_config", None)
        if not callable(get_config):
            raise ValueError("it must define get_config(), which returns a Config.")
        config = get_config(*_arguments(get_config, path, argument))
        if not isinstance(config, Config):
            raise ValueError(f"get_config() must return a Config, not {config!r}.")
        return config


def run_file(path: str) -> ModuleType:
    """Runs a Python file, which may import the shipped configurations, and returns its module."""
    _make_configs_importable()
    name = f"config_file_{Path(path).stem}"
    loader = _SourceLoader(name, str(Path(path).absolute()))
    spec = importlib.util.spec_from_file_location(name, loader.path, loader=loader)
    assert spec  # which a file always has
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class _SourceLoader(SourceFileLoader):
    """Runs a Python file without the folder __pycache__ beside it, which may hold damaged code."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


@contextmanager
def explaining_errors(path: str) -> Generator[None]:
    """Turns an error in the Python file `path` into a ValueError that names it and the line."""
    try:
        yield
    except Exception as error:
        raise ValueError(_explain_error(path, error)) from error


def register_files(paths: str) -> None:
    """Runs Python files, with commas between their paths, for what they register.

    Raises ValueError, which names the file and the line, for one that does not exist or fails.
    """
    for path in filter(None, paths.split(",")):
        if Path(path).suffix != ".py" or not Path(path).is_file():
            raise ValueError(f"--register must name a Python file, not {path}.")
        with explaining_errors(path):
            run_file(path)


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
    if not lines or not lines[-1]:
        return f"{path}: {reason}"
    code = linecache.getline(str(Path(path).absolute()), lines[-1]).strip()
    if code.startswith("raise "):  # the file explains itself
        return f"{path}: {reason}"
    return f"{path}, line {lines[-1]}, {code}: {reason}"


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
