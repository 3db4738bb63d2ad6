"""What `pip install` takes along: every package and public name, configurations, commands."""

import importlib
import inspect
import shutil
import subprocess
import sys
import tomllib
import venv
from operator import attrgetter

import pytest

import transformer
from tests.helpers.scripts import ROOT, run_python, write_config

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


@pytest.mark.long
def test_a_wheel_trains_evaluates_and_restores(tmp_path):
    """Catches a file that only a checkout has, in an environment with the dependencies alone."""
    tree = shutil.ignore_patterns(".*", "runs", "build", "tests", "docs", "*.egg-info")
    shutil.copytree(ROOT, tmp_path / "source", ignore=tree)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    built = subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", f"--wheel-dir={tmp_path}", tmp_path / "source"],
        capture_output=True,
    )
    if built.returncode and b"No matching distribution" in built.stderr:
        pytest.skip("needs the package index, for setuptools")
    assert not built.returncode, built.stderr.decode()
    shutil.rmtree(tmp_path / "source")
    (wheel,) = tmp_path.glob("*.whl")
    venv.create(tmp_path / "env")
    python = tmp_path / "env" / "bin" / "python"
    (packages,) = tmp_path.glob("env/lib/python*/site-packages")
    subprocess.run([*pip, "install", "--no-deps", f"--target={packages}", wheel], check=True)
    folders = [p for p in sys.path if "site-packages" in p]  # without `.pth` files of this checkout
    (packages / "dependencies.pth").write_text("".join(f"{folder}\n" for folder in folders))

    def run(*words):
        ended = subprocess.run([python, *words], cwd=tmp_path, capture_output=True, text=True)
        assert not ended.returncode, ended.stderr
        return ended.stdout

    config = write_config(tmp_path)
    module = "transformer.cli.commands"
    assert str(packages) in run("-c", "import transformer; print(transformer.__file__)")
    run("-m", f"{module}.train", f"--config={config}", "--workdir=run")
    assert "BLEU" in run("-m", f"{module}.evaluate", "--workdir=run")
    assert "d_model=128" in run("-m", f"{module}.train", "--help=model", "--config=embedded_en_de")
    restored = "from transformer import Translator; t = Translator.from_checkpoint('run')"
    assert run("-c", f"{restored}; print(len(t.translate(['0 1', '2'])))") == "2\n"


def test_native_windows_is_refused_in_a_sentence():
    """Catches "No module named fcntl" from the depths of an import."""
    program = "import sys; sys.modules['fcntl'] = None; import transformer.files.storage"
    code, _, err = run_python(program)
    assert code == 1
    last_line = err.strip().split("\n")[-1]
    assert last_line.startswith("ImportError: transformer runs on Linux and macOS; on Windows")
