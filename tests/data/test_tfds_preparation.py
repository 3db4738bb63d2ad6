"""Preparing datasets of TFDS: without TensorFlow, without a network, and what a failure leaves."""

import sys

import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core import constants
from tensorflow_datasets.core.utils.lazy_imports_utils import tensorflow as tf

from transformer.data.tfds import main, read_translations

NOWHERE = "http://127.0.0.1:9/file"  # nobody listens there


class PreparedTalk(tfds.core.GeneratorBasedBuilder):
    """Pairs that are made up and not downloaded, in two configurations as those of WMT."""

    BUILDER_CONFIGS = tuple(
        tfds.core.BuilderConfig(name=name, version=tfds.core.Version("1.0.0"))
        for name in ("local", "broken", "with_tensorflow")
    )

    def _info(self):
        features = tfds.features.Translation(languages=("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=features)

    def _split_generators(self, dl_manager):
        if self.builder_config.name == "broken":
            raise OSError("no space")
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        if self.builder_config.name == "with_tensorflow":
            assert tf.io
        yield 0, {"en": "a cat", "de": "eine Katze"}


@pytest.fixture(autouse=True)
def data_dir(tmp_path, monkeypatch):
    """TFDS_DATA_DIR, empty, and no network: a proxy where nobody answers."""
    monkeypatch.setattr(constants, "DATA_DIR", str(tmp_path / "tfds"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, NOWHERE)
    monkeypatch.setenv("no_proxy", "")
    return tmp_path / "tfds"


@pytest.fixture
def prepare(capsys, monkeypatch):
    """The command: a function of its words, of (exit code, standard error)."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["tfds", *words])
        return main(), capsys.readouterr().err

    return run


def test_text_is_prepared_without_tensorflow_and_once(data_dir, prepare, monkeypatch):
    """Catches some hundred MB that nobody needs, and a second download of what is there."""
    folder = data_dir / "prepared_talk/local/1.0.0"
    code, said = prepare("prepared_talk/local")
    assert code == 0 and said.endswith(f"prepared_talk/local is prepared in {folder}\n")
    number, pairs = read_translations(str(folder), "train", "en", "de")
    assert (number, list(pairs)) == (1, [("a cat", "eine Katze")])
    monkeypatch.setattr(PreparedTalk, "download_and_prepare", pytest.fail)
    said = f"prepared_talk/local is prepared in {folder}\n"
    assert prepare("prepared_talk/local") == (0, said)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("prepared_talk/broken", "cannot be prepared: OSError: no space"),
        ("prepared_talk/with_tensorflow", "pip install -e '.[tf]'"),
        ("no_such_dataset", "knows no dataset 'no_such_dataset'"),
    ],
)
def test_what_fails_is_said_in_one_sentence(name, reason, prepare):
    """Catches a stack trace."""
    code, said = prepare(name)
    assert code == 2 and reason in said
    assert said.splitlines()[-1].startswith("error: ") and said.count("error: ") == 1
    assert "\n" not in said.partition("error: ")[2].strip()


def test_usage(monkeypatch, capsys):
    """Catches a stack trace without a name, and --help taken for a dataset."""
    for words, code in (["--help"], 0), ([], 2), (["a", "b"], 2), (["--format=x"], 2):
        monkeypatch.setattr(sys, "argv", ["tfds", *words])
        with pytest.raises(SystemExit, check=lambda ended, code=code: ended.code == code):
            main()
        output = capsys.readouterr()
        assert (output.out + output.err).startswith("usage: python -m transformer.data.tfds ")
