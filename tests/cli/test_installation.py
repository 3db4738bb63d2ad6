"""What `pip install` takes along: every package and public name, configurations, commands."""

import importlib
import inspect
import subprocess
import sys
import tomllib
from operator import attrgetter

import pytest

import transformer
from tests.helpers.scripts import ROOT, run_python

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_package_is_installed():
    """Catches a new package, or the configurations, that only a checkout has."""
    files = [path.relative_to(ROOT) for path in (ROOT / "transformer").rglob("*") if path.is_file()]
    names = {".".join(file.parts[:-1]) for file in files if "__pycache__" not in file.parts}
    setuptools = PROJECT["tool"]["setuptools"]
    assert set(setuptools["packages"]) == names | {"transformer.configs"}
    assert (ROOT / setuptools["package-dir"]["transformer.configs"] / "embedded_en_de.py").is_file()


def test_public_names_are_imported_on_first_use():
    """Catches a name in `__all__` whose module has moved, and one that is made up."""
    for name in transformer.__all__:
        assert inspect.getdoc(getattr(transformer, name)) and name in dir(transformer)
    with pytest.raises(AttributeError, match="no attribute 'Decoder'"):
        _ = transformer.Decoder


@pytest.mark.parametrize("command", PROJECT["project"]["scripts"].values())
def test_commands_name_functions_of_modules_that_run(command):
    """Catches a command that was renamed, and `python -m …` that does nothing at all."""
    module, _, function = command.partition(":")
    assert callable(attrgetter(function)(importlib.import_module(module)))
    ended = subprocess.run(
        [sys.executable, "-m", module, "--version"], capture_output=True, check=True, cwd=ROOT
    )
    assert ended.stdout.startswith(b"transformer ")


def test_native_windows_is_refused_in_a_sentence():
    """Catches "No module named fcntl" from the depths of an import."""
    program = "import sys; sys.modules['fcntl'] = None; import transformer.files.storage"
    code, _, err = run_python(program)
    assert code == 1
    last_line = err.strip().split("\n")[-1]
    assert last_line.startswith("ImportError: transformer runs on Linux and macOS; on Windows")
