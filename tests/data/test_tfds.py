"""tfds.py: real TFDS datasets, prepared and read with no TensorFlow and no network."""

import io
import json
import pathlib
import re
import shutil
import sys

import numpy as np
import pytest
import tensorflow_datasets as tfds
from tensorflow_datasets.core import constants
from tensorflow_datasets.core.utils.lazy_imports_utils import tensorflow as tf

from configs import imdb
from tests.helpers.scripts import run_python
from transformer.config import DataConfig
from transformer.data.files.texts import (
    TEXT_FEATURES,
    load_evaluation_examples,
    load_training_examples,
)
from transformer.data.rows.images import load_images
from transformer.data.tfds import load_labelled, main, read_translations

TRAIN = [(f"A cat, no. {i}.", f"Eine Katze, Nr. {i}, süß.") for i in range(50)]
TEST = [("It's a dog.\u2028", "Es ist ein Hund."), ("", "leer")]
REVIEWS = [(f"Film no. {i}, süß.\u2028", ("good", "bad")[i % 2]) for i in range(20)]
PICTURES = [(np.arange(i, 72 + i, dtype=np.uint8).reshape(6, 4, 3), i % 3) for i in range(20)]


def prepare(features_of, splits, folder):
    """Prepares a small dataset; returns the folder of its version."""

    class SmallTalk(tfds.core.GeneratorBasedBuilder, skip_registration=True):
        """The rows of a test."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = tfds.features.features_dict.to_feature(features_of(tfds.features))
            # Without disable_shuffling TFDS orders examples by a hash of their keys.
            return tfds.core.DatasetInfo(builder=self, features=features, disable_shuffling=True)

        def _split_generators(self, dl_manager):
            return {split: self._generate_examples(rows) for split, rows in splits.items()}

        def _generate_examples(self, rows):
            yield from enumerate(rows)

    builder = SmallTalk(data_dir=folder, file_format="array_record")
    builder.download_and_prepare()
    return str(builder.data_dir)


@pytest.fixture(scope="module", params=["text", "sentence"])
def reviews(request, tmp_path_factory):
    """A dataset of texts and named labels, of which a split has none (-1), as those of GLUE."""
    rows = [{request.param: text, "label": label} for text, label in REVIEWS]
    return prepare(
        lambda f: {request.param: f.Text(), "label": f.ClassLabel(names=["bad", "good"])},
        {"train": rows, "test": rows[:4], "unlabelled": [{request.param: "?", "label": -1}] * 2},
        tmp_path_factory.mktemp("reviews"),
    )


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A dataset of images and labels without names."""
    pillow = pytest.importorskip("PIL.Image", reason="TFDS reads images with Pillow")

    def png(pixels):
        pillow.fromarray(pixels).save(file := io.BytesIO(), "png")
        file.seek(0)
        return file

    return prepare(
        lambda f: {"image": f.Image(shape=(6, 4, 3)), "label": f.ClassLabel(num_classes=3)},
        {"train": [{"image": png(pixels), "label": label} for pixels, label in PICTURES]},
        tmp_path_factory.mktemp("pictures"),
    )


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """A TFDS_DATA_DIR with a dataset small_talk, and the same under a name of the catalogue."""
    folder = tmp_path_factory.mktemp("tfds")
    rows = {
        split: [{"en": source, "de": target} for source, target in pairs]
        for split, pairs in (("train", TRAIN), ("test", TEST))
    }
    prepared = prepare(lambda f: f.Translation(languages=("de", "en")), rows, folder)
    copy = folder / "wmt14_translate/de-en/1.0.0"
    copy.mkdir(parents=True)
    for file in pathlib.Path(prepared).iterdir():
        name = file.name.replace("small_talk", "wmt14_translate")
        (copy / name).write_bytes(file.read_bytes())
    info = json.loads((copy / "dataset_info.json").read_text())
    info |= {"name": "wmt14_translate", "configName": "de-en"}
    (copy / "dataset_info.json").write_text(json.dumps(info))
    return folder


def in_a_process(data_dir, *calls):
    """The pairs of `read_translations(*call)`, or its error; only gs:// may ask the network."""
    program = (
        "import json, sys\n"
        "from transformer.data.tfds import read_translations\n"
        "out, asked = [], []\n"
        "def hear(event, arguments):\n"
        "    if event in ('socket.connect', 'socket.getaddrinfo'): asked.append(arguments)\n"
        "sys.addaudithook(hear)\n"
        "for call in json.loads(sys.argv[1]):\n"
        "    try: out.append(list(read_translations(*call)))\n"
        "    except ValueError as error: out.append(str(error))\n"
        "    assert not asked or call[0].startswith('gs://'), (call, asked)\n"
        "assert 'tensorflow' not in sys.modules and 'jax' not in sys.modules\n"
        "print(json.dumps(out))\n"
    )
    # A proxy where nobody answers: whoever asks the network fails here, as without one.
    proxies = dict.fromkeys(("http_proxy", "https_proxy"), "http://127.0.0.1:9")
    environment = {"TFDS_DATA_DIR": str(data_dir)} | proxies
    code, out, err = run_python(program, json.dumps(calls), env=environment)
    assert code == 0, err
    return json.loads(out)


def test_read_by_name_and_by_folder(data_dir):
    """Catches TensorFlow, another order, the wrong direction, and bytes instead of text."""
    by_name, backward, by_folder, some, catalogue = in_a_process(
        data_dir,
        ("small_talk", "train", "en", "de"),
        ("small_talk:1.0.0", "test", "de", "en"),
        (str(data_dir / "small_talk/1.0.0"), "test", "en", "de"),
        ("small_talk", "train[:10%]", "en", "de"),
        ("wmt14_translate/de-en", "train", "en", "de"),
    )
    assert by_name == catalogue == [list(pair) for pair in TRAIN]
    assert backward == [[target, source] for source, target in TEST]
    assert by_folder == [list(pair) for pair in TEST]
    assert some == by_name[:5]


def test_what_is_missing_is_said_in_one_sentence(tmp_path):
    """Catches a wait for a network that is down, and "unknown split" where all is missing."""
    expected = {  # without .[tf], as text is prepared without TensorFlow
        "wmt14_translate/de-en": rf"in {tmp_path}\S* is not prepared: set TFDS_DATA_DIR [^[]*"
        r"python -m transformer\.data\.tfds wmt14_translate/de-en",
        "no_such_dataset": "TFDS knows no dataset 'no_such_dataset'.*",
        "wmt14_translate/xx-yy": ".*xx-yy not found.*",
        "/no/such/folder": ".*'/no/such/folder'.*",
        "gs://no-such-bucket/x/1.0.0": ".*(gcsfs|Google account|cannot be reached).*",
    }
    said = in_a_process(tmp_path, *((name, "train", "en", "de") for name in expected))
    for text, pattern in zip(said, expected.values(), strict=True):
        assert re.fullmatch(f"(The TFDS dataset \\S* )?{pattern}", text), text


def test_a_wrong_split_language_or_folder_is_answered_with_the_right_ones(data_dir):
    """Catches a KeyError."""
    for call, said in {
        ("small_talk/1.0.0", "dev", "en", "de"): r"split 'dev'.*'train', 'test'",
        ("small_talk/1.0.0", "train", "en", "fr"): "has de, en, not en and fr",
        ("small_talk", "train", "en", "de"): r"no dataset_info\.json",
    }.items():
        with pytest.raises(ValueError, match=said):
            list(read_translations(str(data_dir / call[0]), *call[1:]))


def test_a_damaged_shard_or_another_format_is_refused(data_dir, tmp_path):
    """Catches a dataset that was copied in part and is read as far as it goes."""
    copy = shutil.copytree(data_dir / "small_talk/1.0.0", tmp_path / "1.0.0")
    (shard,) = copy.glob("*-train.*")
    data = shard.read_bytes()
    flipped = data[:100] + bytes([data[100] ^ 1]) + data[101:]
    for damaged in (data[: len(data) // 2], b"", flipped, None):
        shard.unlink() if damaged is None else shard.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"^The split 'train' of .* cannot be read: [^\n]*$"):
            list(read_translations(str(copy), "train", "en", "de"))
    info = (copy / "dataset_info.json").read_text()
    (copy / "dataset_info.json").write_text(info.replace("array_record", "tfrecord"))
    with pytest.raises(ValueError, match=r"format tfrecord.*python -m transformer\.data\.tfds"):
        list(read_translations(str(copy), "train", "en", "de"))


def test_texts_and_their_labels(reviews):
    """Catches numbers for names, bytes for text, a part taken twice, and configs/imdb.py."""
    data = imdb.get_config().validate().data
    assert data.corpus == "tfds:imdb_reviews"
    data.corpus = f"tfds:{reviews}"
    texts, labels, problems = load_training_examples(data)
    assert list(zip(texts, labels, strict=True)) == REVIEWS[:18] and not problems
    for split, rows in ((data.validation_split, REVIEWS[18:]), (data.test_split, REVIEWS[:4])):
        texts, labels = load_evaluation_examples(data, split, ["bad", "good"])
        assert list(zip(texts, labels, strict=True)) == rows


def test_images_and_their_labels(pictures):
    """Catches pixels that are not scaled, channels lost, labels moved, and a part taken twice."""
    images, labels = load_images(DataConfig(corpus=f"tfds:{pictures}"), "train[50%:]")
    assert labels == [str(label) for _, label in PICTURES[10:]]
    np.testing.assert_allclose(images, np.stack([p for p, _ in PICTURES[10:]]) / 255, rtol=1e-6)


def test_a_dataset_without_labels_or_examples_says_what_it_has(reviews, pictures, data_dir):
    """Catches a KeyError, and -1, which TFDS names as the last class: all are "good"."""
    talk = str(data_dir / "small_talk/1.0.0")
    for name, features in ((pictures, ["text"]), (reviews, ["image"]), (talk, ["en"])):
        message = rf" has \w+, \w+; it must have a label, and {features[0]}\.$"
        with pytest.raises(ValueError, match=message):
            load_labelled(name, "train", features)
    for split, said in (("dev", "cannot be read: .*'train'"), ("unlabelled", "has 2 rows without")):
        with pytest.raises(ValueError, match=rf"^The split '{split}' of \S* {said}[^\n]*$"):
            load_labelled(reviews, split, TEXT_FEATURES)


# ---- python -m transformer.data.tfds


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


@pytest.fixture
def command(tmp_path, capsys, monkeypatch):
    """The command, without a network: from its word to (exit code, standard error)."""
    monkeypatch.setattr(constants, "DATA_DIR", str(tmp_path / "tfds"))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/file")
    monkeypatch.setenv("no_proxy", "")

    def run(word):
        monkeypatch.setattr(sys, "argv", ["tfds", word])
        return main(), capsys.readouterr().err

    return run


def test_text_is_prepared_without_tensorflow_and_once(command, tmp_path, monkeypatch):
    """Catches some hundred MB that nobody needs, and a second download of what is there."""
    folder = tmp_path / "tfds/prepared_talk/local/1.0.0"
    done = f"prepared_talk/local is prepared in {folder}\n"
    code, said = command("prepared_talk/local")
    assert code == 0 and said.endswith(done)
    assert list(read_translations(str(folder), "train", "en", "de")) == [("a cat", "eine Katze")]
    monkeypatch.setattr(PreparedTalk, "download_and_prepare", pytest.fail)
    assert command("prepared_talk/local") == (0, done)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("prepared_talk/broken", "cannot be prepared: OSError: no space"),
        ("prepared_talk/with_tensorflow", "pip install -e '.[tf]'"),
        ("no_such_dataset", "knows no dataset 'no_such_dataset'"),
    ],
)
def test_what_fails_is_said_in_one_sentence(name, reason, command):
    """Catches a stack trace."""
    code, said = command(name)
    assert code == 2 and said.splitlines()[-1].startswith("error: ")
    assert reason in said.splitlines()[-1] and said.count("error: ") == 1
