"""Nothing runs code from data: no file of a run, a corpus or another system's model is executed."""

import ast
import json
import pathlib
import pickle
import re
import sys
import warnings
from contextlib import suppress

import numpy as np
import pytest

from tests.helpers.random_runs import write_run
from tests.helpers.scripts import ROOT
from transformer.checkpoint.restore import restore
from transformer.config import DataConfig
from transformer.data.rows.images import load_images
from transformer.data.workers import in_order

# Who may run what it reads or names, and why that is nothing that a stranger wrote.
TRUSTED = {
    "data/workers.py": {"pickle.load", "subprocess.Popen"},  # a pipe to processes of its own
    "config/python_files.py": {"exec", "compile"},  # the files of --config and --register
    "registry.py": {"import_module"},  # names in this file
    "optional_libraries.py": {"import_module"},  # names in the calls of `require`
    "data/tfds.py": {"import_module"},  # names in this file
    "evaluation/metrics.py": {"subprocess.run"},  # COMET's command
    "interop/writing.py": {"jinja2.Environment"},  # README.md, which is no web page
    "evaluation/html_report.py": {"Markup"},  # pictures, in which matplotlib has escaped all text
    "training/progress.py": {"subprocess.check_output"},  # git
}
BUILT_IN = {"eval", "exec", "compile", "__import__"}
METHODS = {"import_module", "exec_module", "load_module", "run_path", "run_module", "system"}
METHODS |= {"popen", "from_string", "literal_eval", "deserialize", "Markup"}
MODULES = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle", "subprocess", "yaml"}
HARMLESS = {"pickle.dump", "pickle.dumps", "yaml.safe_load"}


def dangers(tree):
    """Yields the calls in a file that may run what they are given."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        root, _, last = name.rpartition(".")
        if name in BUILT_IN or last in METHODS:
            yield last
        elif (
            (root.split(".")[0] in MODULES and name not in HARMLESS)
            or name == "torch.load"
            or "shell" in options
            or options.get("allow_pickle", "False") != "False"
            or (last == "Environment" and options.get("autoescape") != "True")
        ):
            yield name


def test_no_call_of_the_package_runs_what_it_reads():
    """Catches pickles, eval, imports by name and templates that a run or a corpus could reach."""
    package = ROOT / "transformer"
    calls = {path: set(dangers(ast.parse(path.read_bytes()))) for path in package.rglob("*.py")}
    found = {path.relative_to(package).as_posix(): names for path, names in calls.items() if names}
    assert found == TRUSTED
    examples = "np.load(f, allow_pickle=True)", "yaml.load(f)", "torch.load(f)", "eval(text)"
    assert all(set(dangers(ast.parse(example))) for example in examples)


def test_templates_escape_everything():
    """Catches a text that a template puts into a page as it is."""
    templates = list((ROOT / "transformer").rglob("*.jinja"))
    assert templates
    for path in templates:
        assert not re.search(r"\|\s*safe\b|autoescape", path.read_text()), path


class Bomb:
    """A pickle that makes a file when it is read."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return pathlib.Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path):
    """The file that hostile data would make; it must not exist after the test."""
    path = tmp_path / "executed"
    pickle.loads(pickle.dumps(Bomb(path)))
    assert path.exists(), "else the test would prove nothing"
    path.unlink()
    yield path
    assert not path.exists()


def test_arrays_are_no_pickles(marker, tmp_path):
    """Catches object arrays in images."""
    bomb = np.array([Bomb(marker)], object)
    np.savez(tmp_path / "train.npz", images=bomb, labels=bomb)
    with pytest.raises(ValueError, match=r"train\.npz"):
        load_images(DataConfig(corpus=str(tmp_path)), "train")


def test_files_of_a_run_are_no_pickles(marker, tmp_path):
    """Catches a file of a work directory, or of its checkpoint, that is unpickled."""
    run = write_run(tmp_path / "run", "classification")
    for file in [path for path in run.iterdir() if path.is_file()]:
        content = file.read_bytes()
        file.write_bytes(pickle.dumps(Bomb(marker)))
        with suppress(ValueError), warnings.catch_warnings(action="ignore"):
            restore(run)
        file.write_bytes(content)
    for file in [path for path in run.rglob("checkpoints/*/**/*") if path.is_file()]:
        file.write_bytes(pickle.dumps(Bomb(marker)))
    with pytest.raises(ValueError, match=r"checkpoint"), pytest.warns(UserWarning):
        restore(run)


def test_workers_import_nothing_from_the_working_directory(marker, tmp_path, monkeypatch):
    """Catches a corpus with a file queue.py, which a process started beside it would import."""
    (tmp_path / "queue.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert list(in_order(str.upper, ["a", "b"], 2)) == ["A", "B"]


def test_names_in_data_are_not_imported(tmp_path, monkeypatch):
    """Catches a module that a configuration or the notes of a checkpoint have imported."""
    (tmp_path / "planted.py").write_text("class Handler: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    run = write_run(tmp_path / "run", "classification")
    for notes in (run / "checkpoints").rglob("_CHECKPOINT_METADATA"):
        text, number = re.subn(r'"orbax\.[^"]*"', '"planted.Handler"', notes.read_text())
        assert number
        notes.write_text(text)
    restore(run)
    config = json.loads((run / "config.json").read_text())
    for name in ("attention", "block", "positions", "task"):
        changed = {"model": config["model"] | {name: "planted:Handler"}}
        changed = {"task": "planted:Handler"} if name == "task" else changed
        (run / "config.json").write_text(json.dumps(config | changed))
        with pytest.raises(ValueError, match=f"{name} must be"):
            restore(run)
    assert "planted" not in sys.modules


def test_a_dataset_brings_no_code(tmp_path, monkeypatch):
    """Catches a prepared dataset whose features TFDS would import, by folder and by name."""
    tfds = pytest.importorskip("transformer.data.tfds", reason="reads TFDS")
    (tmp_path / "planted.py").write_text("class Feature: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "hostile" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "dataset_info.json").write_text('{"name": "hostile", "version": "1.0.0"}')
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    feature = {"pythonClassName": "planted.Feature"}
    known = "tensorflow_datasets.core.features.features_dict.FeaturesDict"
    nested = {"pythonClassName": known, "featuresDict": {"features": {"text": feature}}}
    for features in (feature, nested, {"type": "planted.Feature", "content": {}}):
        (folder / "features.json").write_text(json.dumps(features))
        for name in (str(folder), "hostile", "hostile:1.0.0"):
            with pytest.raises(ValueError, match=r"planted\.Feature, which is no feature"):
                tfds.open_builder(name)
    for name in ("huggingface:squad", f"imdb_reviews/data_dir={tmp_path}"):
        with pytest.raises(ValueError, match="run code of their own"):
            tfds.open_builder(name)
    assert "planted" not in sys.modules
