"""A name or files -> labelled sentences, in order; what is left out is counted.

A corpus is a folder of `train.tsv` and the like (LABEL<tab>TEXT; each may end in .gz or .xz) or
`tfds:NAME` for a TFDS dataset with a label and a text.
"""

import warnings
from collections import Counter
from pathlib import Path

from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import find, list_files, read_lines

TEXT_FEATURES = "text", "sentence"


def load_training_examples(config, notes: Counter):
    """(texts, labels) of the training split of a `DataConfig`; empty texts are left out."""
    texts, labels = _load(config, config.train_split, notes)
    kept = [i for i, text in enumerate(texts) if text.strip()]
    if len(kept) < len(texts):
        notes["an empty text"] += len(texts) - len(kept)
    classes = set(labels[i] for i in kept)
    if len(classes) < 2:
        raise ValueError(
            f"The split '{config.train_split}' of {config.corpus} must hold at least two classes, "
            f"but has {len(kept)} sentences of {len(classes)}."
        )
    return [texts[i] for i in kept], [labels[i] for i in kept]


def load_evaluation_examples(config, split, classes):
    """(texts, labels) of a split, every one of them; each label must be one of `classes`."""
    notes = Counter()
    texts, labels = _load(config, split, notes)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    if not texts:
        raise ValueError(f"The split '{split}' of {config.corpus} is empty: nothing to score.")
    for number, label in enumerate(labels, 1):
        if label not in classes:
            raise ValueError(
                f"The split '{split}' of {config.corpus} has the label '{label}' (its sentence "
                f"{number}), but the classes of the training text are {', '.join(classes)}."
            )
    return texts, labels


def _load(config, split, notes):
    if config.corpus.startswith("tfds:"):
        from transformer.data.tfds import load_labelled

        rows = load_labelled(config.corpus.removeprefix("tfds:"), split, TEXT_FEATURES)
        return [text.decode() for text, _ in rows], [label for _, label in rows]
    name, start, stop = parse_split(split)
    folder = Path(config.corpus).expanduser()
    path = find(folder, f"{name}.tsv")
    if path is None:
        raise ValueError(
            f"The corpus folder {folder} must hold {name}.tsv (LABEL<tab>TEXT; also .gz, .xz); "
            f"{list_files(folder)}."
        )
    rows = part_of(list(_rows(path, notes)), start, stop)
    return [text for _, text in rows], [label for label, _ in rows]


def _rows(path, notes):
    for number, line in enumerate(read_lines(path, notes), 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise ValueError(f"{path} line {number} must be LABEL<tab>TEXT, not '{line[:60]}'.")
        yield label.strip(), text
