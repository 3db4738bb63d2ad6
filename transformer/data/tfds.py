"""Reads datasets of TensorFlow Datasets without TensorFlow and without a network.

Run as a program, it prepares a dataset of the catalogue, with a network (`tfds build` of TFDS does
not start without Apache Beam):

    python -m transformer.data.tfds wmt14_translate/de-en
"""

import argparse
import importlib
import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow_datasets as tfds
from etils import epath

from transformer.console import say
from transformer.exit_codes import DONE, INTERRUPTED, WRONG_INPUT
from transformer.files import storage
from transformer.files.reading import reason_of

# The parts of the catalogue that register wmt14_translate, imdb_reviews, mnist and their like.
CATALOGUES = [
    f"tensorflow_datasets.{part}" for part in ("translate", "text", "image_classification")
]
RANDOM_ACCESS = ("array_record", "parquet")  # the formats that are read without TensorFlow
FEATURES = "tensorflow_datasets.core.features."  # where the classes of TFDS's features are
NO_CATALOGUE = re.compile(r"=|^[^/:]+:(?![\d*])")  # arguments of a builder, or another catalogue


# ---- reading


def read_translations(name: str, split: str, source: str, target: str) -> Iterator[tuple[str, str]]:
    """Yields the (source, target) pairs of a split of a dataset with a `Translation` feature.

    name: as `tfds.builder` takes it, e.g. "wmt14_translate/de-en", or the folder of a prepared
    dataset; TFDS_DATA_DIR says where prepared datasets lie. Nothing is downloaded. Raises
    ValueError if the dataset is not prepared, cannot be read or has other languages.
    """
    builder = _open_prepared(name)
    languages = list(builder.info.features.keys())
    if not {source, target} <= set(languages):
        raise ValueError(
            f"The TFDS dataset {name} has {', '.join(languages)}, not {source} and {target}; set "
            f"data.source_language and data.target_language."
        )
    for pair in _read(builder, name, split, source, target):
        yield pair[0].decode(), pair[1].decode()


def load_labelled(name: str, split: str, features: Sequence[str]) -> list[tuple[Any, str]]:
    """Returns (example, name of its label) of each row of a split of a dataset with a `label`.

    features: the example is the first of these that the dataset has: bytes for a text, an array for
    an image. Otherwise as `read_translations`; also raises ValueError if a row has no label.
    """
    builder = _open_prepared(name)
    available = dict(builder.info.features.items())
    feature = next((feature for feature in features if feature in available), None)
    label_of = available.get("label")
    if feature is None or not hasattr(label_of, "int2str"):
        raise ValueError(
            f"The TFDS dataset {name} has {', '.join(available)}; it must have a label, and "
            f"{' or '.join(features)}."
        )
    rows = list(_read(builder, name, split, feature, "label"))
    if unlabelled := sum(label < 0 for _, label in rows):  # -1, as in the test sets of GLUE
        raise ValueError(f"The split '{split}' of {name} has {unlabelled} rows without a label.")
    return [(example, label_of.int2str(label)) for example, label in rows]


def _read(
    builder: tfds.core.DatasetBuilder, name: str, split: str, *features: str
) -> Iterator[tuple[Any, ...]]:
    """Yields the values of these features in each row."""
    try:
        for row in builder.as_data_source(split):
            values = tuple(row[feature] for feature in features)
            if any(value is None for value in values):
                raise ValueError("a record is damaged")
            yield values
    except Exception as error:  # TFDS and its readers raise errors of many types
        raise ValueError(
            f"The split '{split}' of {name} cannot be read: {reason_of(error)}"
        ) from error


def files_of_dataset(name: str) -> list[epath.Path]:
    """Returns the files of a prepared dataset; raises ValueError as `read_translations`."""
    return sorted(epath.Path(_open_prepared(name).data_dir).iterdir())


# ---- opening


def _open_prepared(name: str) -> tfds.core.DatasetBuilder:
    """Returns the builder of a dataset that can be read here."""
    for path in (name, os.environ.get("TFDS_DATA_DIR", "")):
        if storage.is_remote(path):
            storage.locate(path)  # raises ValueError if it is out of reach
    builder = open_builder(name)
    _check_prepared(name, builder)
    return builder


def open_builder(name: str, file_format: str | None = None) -> tfds.core.DatasetBuilder:
    """Returns the builder of a dataset. file_format: to prepare it in, where it is not prepared.

    Raises ValueError, without asking the network, if there is no such dataset.
    """
    folder = tfds.core.Path(name).expanduser()
    if "/" in name and folder.is_dir():
        if not (folder / "dataset_info.json").exists():
            raise ValueError(
                f"{name} has no dataset_info.json: the folder of a prepared TFDS dataset ends with "
                f"the version, as in .../wmt14_translate/de-en/1.0.0."
            )
        _check_features(epath.Path(folder) / "features.json")
        return tfds.builder_from_directory(folder)
    if NO_CATALOGUE.search(name):
        raise ValueError(
            f"A TFDS dataset is NAME, NAME/CONFIG or the folder of a prepared one, not {name}: "
            f"other catalogues run code of their own."
        )
    for catalogue in CATALOGUES:
        importlib.import_module(catalogue)
    root = os.environ.get("TFDS_DATA_DIR") or tfds.core.constants.DATA_DIR
    prepared = epath.Path(root).expanduser() / re.split("[/:]", name)[0]
    for pattern in ("*/features.json", "*/*/features.json"):  # its configurations and versions
        for file in prepared.glob(pattern):
            _check_features(file)
    try:
        return tfds.builder(name, file_format=file_format, try_gcs=False)  # no network
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f"TFDS knows no dataset '{name}', and no such folder exists.") from None
    except ValueError as error:
        raise ValueError(
            f"No such folder exists, and TFDS cannot open '{name}': {reason_of(error)}"
        ) from None


def _check_features(file: epath.Path) -> None:
    """Raises ValueError if features.json names code other than TFDS's own, which would be run."""

    def check(value: dict[str, Any]) -> None:
        for key in ("pythonClassName", "python_class_name", "type"):
            name = value.get(key)
            if isinstance(name, str) and not name.startswith(FEATURES):
                raise ValueError(
                    f"{file} asks for {name}, which is no feature of TFDS itself and is not run."
                )

    if file.exists():
        json.loads(file.read_bytes(), object_hook=check)


def _check_prepared(name: str, builder: tfds.core.DatasetBuilder) -> None:
    """Raises ValueError if a dataset is not prepared, or cannot be read without TensorFlow."""
    place = f"The TFDS dataset {name} in {builder.data_dir}"
    command = f"python -m transformer.data.tfds {name}"
    if not builder.info.splits:
        raise ValueError(
            f"{place} is not prepared: set TFDS_DATA_DIR to the folder that holds it, or with a "
            f"network prepare it there once: {command}"
        )
    if (kind := builder.info.file_format.value) not in RANDOM_ACCESS:
        raise ValueError(
            f"{place} is of the format {kind}, which only TensorFlow reads. Prepare it in another "
            f"TFDS_DATA_DIR: {command}"
        )


def main() -> int:
    """Prepares the dataset that the command line names; returns the exit code.

    It needs TensorFlow for datasets whose own code uses it (MNIST and CIFAR do).
    """
    parser = argparse.ArgumentParser(
        prog="python -m transformer.data.tfds",
        description="Downloads and prepares a dataset of the TFDS catalogue in the folder that the "
        "environment variable TFDS_DATA_DIR names (~/tensorflow_datasets without it).",
    )
    parser.add_argument("NAME", help="such as wmt14_translate/de-en")
    name = parser.parse_args().NAME
    try:
        builder = open_builder(name, file_format="array_record")
        if not builder.info.splits:
            say(f"preparing {name} in {builder.data_dir}: {builder.info.download_size} to download")
            builder.download_and_prepare()
        _check_prepared(name, builder)
        say(f"{name} is prepared in {builder.data_dir}")
        return DONE
    except KeyboardInterrupt:
        say("interrupted")
        return INTERRUPTED
    except ValueError as error:
        reason = reason_of(error)
    except Exception as error:  # TFDS raises errors of many types
        reason = f"{name} cannot be prepared: {type(error).__name__}: {reason_of(error)}"
        if isinstance(error, ImportError) and "tensorflow" in str(error):  # reading needs none
            reason = f"{name} is prepared with TensorFlow: pip install -e '.[tf]' and start again."
    say(f"error: {reason}")
    return WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
