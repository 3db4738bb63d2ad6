"""Translation datasets of TensorFlow Datasets, read without TensorFlow (array_record)."""

import tensorflow_datasets as tfds

CATALOGUE = "tensorflow_datasets.translate"  # registers wmt14_translate and its like


def load_tfds(name, split, source, target):
    """All pairs of `split` of a dataset with a `Translation` feature.

    name: as in `tfds.builder`, e.g. "wmt14_translate/de-en", or a folder that holds a prepared
    dataset. TFDS_DATA_DIR says where datasets lie (a path or gs://). ValueError says what is missing.
    """
    builder = _builder(name)
    languages = getattr(builder.info.features, "languages", None) or list(builder.info.features)
    for language in (source, target):
        if language not in languages:
            raise ValueError(
                f"The TFDS dataset {name} has {', '.join(languages)}, not '{language}'; set "
                f"data.source_language and data.target_language."
            )
    try:
        rows = builder.as_data_source(split)
    except Exception as error:  # TFDS raises of many types for a split that is not there
        raise ValueError(
            f"The split '{split}' of {name} cannot be read: {str(error).splitlines()[0]} (it has "
            f"{', '.join(builder.info.splits) or 'none'})."
        ) from error
    return [(row[source].decode(), row[target].decode()) for row in rows]


def _builder(name):
    if "/" in name and tfds.core.Path(name).is_dir():
        return tfds.builder_from_directory(name)
    try:
        return tfds.builder(name, try_gcs=False)
    except tfds.core.DatasetNotFoundError:
        pass
    try:
        __import__(CATALOGUE)
        return tfds.builder(name, try_gcs=False)
    except tfds.core.DatasetNotFoundError:
        raise ValueError(f"TFDS knows no dataset '{name}' and no such folder is there.") from None
