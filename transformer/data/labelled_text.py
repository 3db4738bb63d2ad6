"""A name or files -> labelled sentences, in order; what is left out is counted.

A corpus is a folder of `train.tsv` and the like (LABEL<tab>TEXT; each may end in .gz or .xz) or
`tfds:NAME` for a TFDS dataset with a label and a text.
"""

import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import describe_folder, find_file, read_text

TEXT_FEATURES = "text", "sentence"


class LabelledTexts(NamedTuple):
    """Sentences with their labels, and the number of lines skipped or repaired, by reason."""

    texts: list[str]
    labels: list[str]
    problems: Counter[str]


def load_training_examples(config):
    """The training split of a `DataConfig`; empty texts are left out."""
    texts, labels, problems = _load(config, config.train_split)
    kept = [i for i, text in enumerate(texts) if text.strip()]
    if len(kept) < len(texts):
        problems["an empty text"] += len(texts) - len(kept)
    classes = set(labels[i] for i in kept)
    if len(classes) < 2:
        raise ValueError(
            f"The split '{config.train_split}' of {config.corpus} must hold at least two classes, "
            f"but has {len(kept)} sentences of {len(classes)}."
        )
    return LabelledTexts([texts[i] for i in kept], [labels[i] for i in kept], problems)


def load_evaluation_examples(config, split, classes):
    """(texts, labels) of a split, every one of them; each label must be one of `classes`."""
    texts, labels, problems = _load(config, split)
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    if not texts:
        raise ValueError(f"The split '{split}' of {config.corpus} is empty: nothing to score.")
    for number, label in enumerate(labels, 1):
        if label not in classes:
            raise ValueError(
                f"The split '{split}' of {config.corpus} has the label '{label}' (its sentence "
                f"{number}), but the classes of the training text are {', '.join(classes)}."
            )
    return texts, labels


def _load(config, split):
    if config.corpus.startswith("tfds:"):
        from transformer.data.tfds import load_labelled

        rows = load_labelled(config.corpus.removeprefix("tfds:"), split, TEXT_FEATURES)
        texts, labels = [text.decode() for text, _ in rows], [label for _, label in rows]
        return LabelledTexts(texts, labels, Counter())
    name, start, stop = parse_split(split)
    folder = Path(config.corpus).expanduser()
    path = find_file(folder, f"{name}.tsv")
    if path is None:
        raise ValueError(
            f"The corpus folder {folder} must hold {name}.tsv (LABEL<tab>TEXT; also .gz, .xz); "
            f"{describe_folder(folder)}."
        )
    lines, problems = read_text(path)
    rows = part_of(list(_rows(path, lines)), start, stop)
    return LabelledTexts([text for _, text in rows], [label for label, _ in rows], problems)


def _rows(path, lines):
    for number, line in enumerate(lines, 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise ValueError(f"{path} line {number} must be LABEL<tab>TEXT, not '{line[:60]}'.")
        yield label.strip(), text
