"""Reads labelled sentences, in order, and counts those that are skipped.

A corpus is a folder of `train.tsv` and the like (LABEL<tab>TEXT; each may end in .gz or .xz) or
`tfds:NAME` for a TFDS dataset with a label and a text. A tab in a text is part of it, and divides
it where the model reads pairs (`text_pairs`).
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from etils import epath

from transformer.config import DataConfig
from transformer.data.files.splits import parse_split, part_of
from transformer.data.files.text import describe_folder, find_file, name_in_folder, read_text
from transformer.files.storage import locate

TEXT_FEATURES = "text", "sentence"


class LabelledTexts(NamedTuple):
    """Sentences with their labels."""

    texts: list[str]
    labels: list[str]
    problems: Counter[str]  # number of lines that were skipped or repaired, by reason


def load_training_examples(config: DataConfig) -> LabelledTexts:
    """Reads the training split and skips empty texts.

    Raises ValueError if it cannot be read, or if fewer than two classes are left.
    """
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


def load_evaluation_examples(
    config: DataConfig, split: str, classes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns (texts, labels) of all sentences of a split; warns of repaired lines.

    Raises ValueError if it cannot be read or is empty, or if a label is not one of `classes`.
    """
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


def _load(config: DataConfig, split: str) -> LabelledTexts:
    """Reads a split as it is; `problems` counts the repaired lines."""
    if config.corpus.startswith("tfds:"):
        from transformer.data.tfds import load_labelled

        rows = load_labelled(config.corpus.removeprefix("tfds:"), split, TEXT_FEATURES)
        texts = [text.decode() for text, _ in rows]
        return LabelledTexts(texts, [label for _, label in rows], Counter())
    path, lines, repairs = read_split(config, split, "tsv", "LABEL<tab>TEXT")
    _, start, stop = parse_split(split)
    rows = part_of(list(_split_rows(path, lines)), start, stop)
    return LabelledTexts([text for _, text in rows], [label for label, _ in rows], repairs)


def read_split(
    config: DataConfig, split: str, ending: str, of_line: str
) -> tuple[epath.Path, list[str], Counter[str]]:
    """Returns (file of which a split is all or a part, its lines, counts of repaired ones).

    of_line: what a line of it must hold. Raises ValueError if the folder has no such file.
    """
    name, folder = parse_split(split)[0], locate(config.corpus)
    path = find_file(folder, f"{name_in_folder(folder, name)}.{ending}")
    if path is None:
        raise ValueError(
            f"The corpus folder {folder} must hold {name}.{ending} ({of_line}; also .gz, .xz); "
            f"{describe_folder(folder)}."
        )
    lines, repairs = read_text(path)
    return path, lines, repairs


def _split_rows(path: epath.Path, lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yields (label, text) of each line."""
    for number, line in enumerate(lines, 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise ValueError(f"{path} line {number} must be LABEL<tab>TEXT, not '{line[:60]}'.")
        yield label.strip(), text
