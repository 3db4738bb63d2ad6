"""Preparing datasets of TFDS: without TensorFlow, without a network, and what a failure leaves."""

import threading
import time

import pytest
import requests
import tensorflow_datasets as tfds
from tensorflow_datasets.core import constants
from tensorflow_datasets.core.utils.lazy_imports_utils import tensorflow as tf

from tests.helpers.scripts import HANGS
from transformer.data import tfds_preparation
from transformer.data.tfds import read_translations

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
            dl_manager.download(NOWHERE)
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


def prepare(capsys, *words):
    """(exit code, standard error) of the command."""
    code = tfds_preparation.main(["tfds", *words])
    return code, capsys.readouterr().err


def test_text_is_prepared_without_tensorflow_and_once(data_dir, capsys, monkeypatch):
    """Catches some hundred MB that nobody needs, and a second download of what is there."""
    folder = data_dir / "prepared_talk/local/1.0.0"
    code, said = prepare(capsys, "prepared_talk/local")
    assert code == 0 and said.endswith(f"prepared_talk/local is prepared in {folder}\n")
    number, pairs = read_translations(str(folder), "train", "en", "de")
    assert (number, list(pairs)) == (1, [("a cat", "eine Katze")])
    monkeypatch.setattr(tfds_preparation, "_download_and_prepare", pytest.fail)
    said = f"prepared_talk/local is prepared in {folder}\n"
    assert prepare(capsys, "prepared_talk/local") == (0, said)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wmt14_translate/de-en", "data.statmt.org and www.statmt.org cannot be reached"),
        ("prepared_talk/broken", "cannot be prepared: "),
        ("prepared_talk/with_tensorflow", "pip install -e '.[tf]'"),
        ("no_such_dataset", "knows no dataset 'no_such_dataset'"),
    ],
)
def test_what_fails_is_said_in_one_sentence_and_leaves_nothing(
    name, reason, data_dir, capsys, monkeypatch
):
    """Catches minutes of retries, a stack trace, and folders of a dataset that is not there."""
    pauses = []  # between attempts, in seconds
    monkeypatch.setattr(time, "sleep", pauses.append)
    code, said = prepare(capsys, name)
    assert code == 2 and reason in said
    assert said.splitlines()[-1].startswith("error: ") and said.count("error: ") == 1
    assert "\n" not in said.partition("error: ")[2].strip()
    assert sum(pauses) < 15
    assert not list(data_dir.parent.rglob("*"))


def test_a_network_that_swallows_everything_is_not_waited_for(monkeypatch):
    """Catches minutes of silence behind a firewall that drops packets."""
    asked = threading.Event()
    monkeypatch.setattr(tfds_preparation, "ANSWER_TIMEOUT", 0.05)
    monkeypatch.setattr(requests, "head", lambda url, timeout: asked.wait())
    with pytest.raises(ValueError, match=r"b\.org cannot be reached.*no answer within 0\.05 s"):
        tfds_preparation.check_sites("x", ["https://a.org/1", "https://b.org/2"])
    asked.set()  # their threads end
    monkeypatch.setattr(tfds_preparation, "ANSWER_TIMEOUT", HANGS)
    monkeypatch.setattr(requests, "head", lambda url, timeout: None)
    tfds_preparation.check_sites("x", ["https://a.org/1", "ftp://b.org/2"])


def test_usage(capsys):
    """Catches a stack trace without a name, and --help taken for a dataset."""
    assert tfds_preparation.main(["tfds", "--help"]) == 0
    assert capsys.readouterr().out.startswith("usage: python -m transformer.data.tfds NAME\n")
    for words in ([], ["a", "b"], ["--format=x"]):
        code, said = prepare(capsys, *words)
        assert code == 2 and said.startswith("usage: ")
