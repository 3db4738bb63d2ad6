"""Datasets of TensorFlow Datasets, read without TensorFlow and without a network.

To prepare one of the catalogue, with a network and the `tf` extra:
python -m transformer.data.tfds wmt14_translate/de-en
"""

import importlib
import os
import sys

import tensorflow_datasets as tfds

from transformer import storage

# The parts of the catalogue that register wmt14_translate, imdb_reviews, mnist and their like.
CATALOGUES = [
    f"tensorflow_datasets.{part}" for part in ("translate", "text", "image_classification")
]
RANDOM_ACCESS = ("array_record", "parquet")  # the formats that are read without TensorFlow


def load_translations(name, split, source, target):
    """All pairs of `split` of a prepared dataset with a `Translation` feature.

    name: as in `tfds.builder`, e.g. "wmt14_translate/de-en", or the folder of a prepared dataset.
    TFDS_DATA_DIR says where datasets lie. Nothing is downloaded; ValueError says what is missing.
    """
    builder = _open_prepared(name)
    languages = list(builder.info.features.keys())
    if not {source, target} <= set(languages):
        raise ValueError(
            f"The TFDS dataset {name} has {', '.join(languages)}, not {source} and {target}; set "
            f"data.source_language and data.target_language."
        )
    return _read(builder, name, split, lambda row: (row[source].decode(), row[target].decode()))


def load_labelled(name, split, features):
    """All (example, name of its label) of `split` of a prepared dataset with a `label`.

    features: the names under which the example may go. Otherwise as `load_translations`.
    """
    builder = _open_prepared(name)
    there = dict(builder.info.features.items())
    feature = next((feature for feature in features if feature in there), None)
    label_of = there.get("label")
    if feature is None or not hasattr(label_of, "int2str"):
        raise ValueError(
            f"The TFDS dataset {name} has {', '.join(there)}; it must have a label, and "
            f"{' or '.join(features)}."
        )
    rows = _read(builder, name, split, lambda row: (row[feature], row["label"]))
    if unlabelled := sum(label < 0 for _, label in rows):  # -1, as in the test sets of GLUE
        raise ValueError(f"The split '{split}' of {name} has {unlabelled} rows without a label.")
    return [(example, label_of.int2str(label)) for example, label in rows]


def _read(builder, name, split, take):
    """What `take` makes of each row; in a damaged shard that may be None."""
    try:
        return [take(row) for row in builder.as_data_source(split)]
    except Exception as error:  # TFDS and its readers raise of many types
        raise ValueError(
            f"The split '{split}' of {name} cannot be read: {_in_short(error)}"
        ) from error


def _open_prepared(name):
    """The builder of a dataset that can be read here."""
    for place in (name, os.environ.get("TFDS_DATA_DIR", "")):
        if storage.is_remote(place):
            storage.locate(place)  # says in one sentence if it is out of reach
    try:
        builder = _open(name)
    except ImportError as error:  # gs:// without its package
        raise ValueError(f"{name} cannot be read: {error}.") from error
    _check_prepared(name, builder)
    return builder


def _register():
    for catalogue in CATALOGUES:
        importlib.import_module(catalogue)


def _open(name):
    """The builder of a dataset; `try_gcs=False` keeps TFDS off the network."""
    folder = tfds.core.Path(name).expanduser()
    if "/" in name and folder.is_dir():
        if not (folder / "dataset_info.json").exists():
            raise ValueError(
                f"{name} is not a prepared TFDS dataset: it has no dataset_info.json (the folder "
                f"to name ends with the version, as in .../wmt14_translate/de-en/1.0.0)."
            )
        return tfds.builder_from_directory(folder)
    _register()
    try:
        return tfds.builder(name, try_gcs=False)
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f"TFDS knows no dataset '{name}', and no such folder is there.") from None
    except ValueError as error:
        raise ValueError(
            f"No such folder is there, and TFDS cannot open '{name}': {_in_short(error)}"
        ) from None


def _check_prepared(name, builder):
    how = f"pip install -e '.[tf]', then python -m transformer.data.tfds {name}"
    if not builder.info.splits:
        raise ValueError(
            f"The TFDS dataset {name} is not prepared in {builder.data_dir}. Set TFDS_DATA_DIR to "
            f"the folder that holds it, or with a network prepare it there once: {how}"
        )
    if builder.info.file_format.value not in RANDOM_ACCESS:
        raise ValueError(
            f"The TFDS dataset {name} in {builder.data_dir} is of the format "
            f"{builder.info.file_format.value}, which only TensorFlow reads. Prepare it in another "
            f"TFDS_DATA_DIR: {how}"
        )


def prepare(name):
    """Downloads a dataset of the catalogue into TFDS_DATA_DIR, as `load_translations` reads it."""
    _register()
    tfds.builder(name, file_format="array_record").download_and_prepare()


def _in_short(error):
    text = " ".join(str(error).split())
    return text if len(text) <= 240 else f"{text[:240]}…"


if __name__ == "__main__":
    prepare(*sys.argv[1:])
