"""Reads the splits of corpora that are no sentence pairs: one long text, or texts with labels.

A corpus is a folder with a file for each split, which may end in .gz or .xz: `train.txt` is one
text; `train.tsv` has LABEL<tab>TEXT on each line, where a tab in a text is part of it and divides
it where the model reads pairs (`encoded_texts`); `train.conll` has a word, white space and its
label, the first and last column where there are more, and an empty line ends a text. In memory a
text of words is its words, and its labels too, with spaces between. `tfds:NAME` is a TFDS dataset
with a label and a text.
"""

import warnings
from collections import Counter
from collections.abc import Sequence

from transformer.config import DataConfig
from transformer.data.files.text import Text, find_split, parse_split, part_of, read_text
from transformer.files.storage import locate

TEXT_FEATURES = "text", "sentence"
# Texts, their labels, and the number of lines that were left out or repaired, by reason.
LabelledTexts = tuple[list[str], list[str], Counter[str]]


def load_text_lines(config: DataConfig, split: str) -> Text:
    """Reads the lines of a split; a part of a split is counted in characters.

    Raises ValueError if the file is missing or unreadable, or the split holds no text.
    """
    name, start, stop = parse_split(split)
    corpus = locate(config.corpus)
    if corpus.is_file() and name != "all":
        raise ValueError(
            f"{corpus} is one file: its split is 'all', or a part as all[:90%], not '{split}'; set "
            f"data.train_split, data.validation_split and data.test_split."
        )
    path = corpus if corpus.is_file() else find_split(corpus, name, "txt")
    lines, repairs = read_text(path)
    text = part_of("".join(f"{line}\n" for line in lines), start, stop)
    if not text.strip():
        raise ValueError(f"The split '{split}' of {path} holds no text.")
    return Text(text.removesuffix("\n").split("\n"), repairs)


def load_training_examples(config: DataConfig) -> LabelledTexts:
    """Reads the training split and leaves out empty texts.

    Raises ValueError if it cannot be read, or if fewer than two classes are left.
    """
    rows, problems = _load(config, config.train_split)
    kept = [row for row in rows if row[0].strip()]
    if len(kept) < len(rows):
        problems["an empty text"] += len(rows) - len(kept)
    classes = {label for _, label in kept}
    if len(classes) < 2:
        raise ValueError(
            f"The split '{config.train_split}' of {config.corpus} must hold at least two classes, "
            f"but has {len(kept)} sentences of {len(classes)}."
        )
    return [text for text, _ in kept], [label for _, label in kept], problems


def load_evaluation_examples(
    config: DataConfig, split: str, classes: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Returns (texts, labels) of all sentences of a split; warns of repaired lines.

    Raises ValueError if it cannot be read or is empty, or if a label is not one of `classes`.
    """
    rows, problems = _load(config, split)
    for problem in problems:
        warnings.warn(problem, stacklevel=2)
    if not rows:
        raise ValueError(f"The split '{split}' of {config.corpus} is empty: nothing to score.")
    for number, (_, label) in enumerate(rows, 1):
        if label not in classes:
            raise ValueError(
                f"The split '{split}' of {config.corpus} has the label '{label}' (its sentence "
                f"{number}), but the classes of the training text are {', '.join(classes)}."
            )
    return [text for text, _ in rows], [label for _, label in rows]


def _load(config: DataConfig, split: str) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Returns ((text, label) of each line of a split, the number of repaired lines by reason)."""
    if config.corpus.startswith("tfds:"):
        from transformer.data.tfds import load_labelled

        rows = load_labelled(config.corpus.removeprefix("tfds:"), split, TEXT_FEATURES)
        return [(text.decode(), label) for text, label in rows], Counter()
    name, start, stop = parse_split(split)
    path = find_split(locate(config.corpus), name, "tsv")
    lines, repairs = read_text(path)
    rows = []
    for number, line in enumerate(lines, 1):
        label, tab, text = line.partition("\t")
        if not tab or not label.strip():
            raise ValueError(f"{path} line {number} must be LABEL<tab>TEXT, not '{line[:60]}'.")
        rows.append((text, label.strip()))
    return part_of(rows, start, stop), repairs


def load_labelled_words(
    config: DataConfig, split: str, classes: Sequence[str] = ()
) -> LabelledTexts:
    """Returns the texts and labels of a split; warns of repaired lines of one to score.

    classes: of the run that is scored, none for its training split. Raises ValueError if the split
    cannot be read or is empty, or if a label is not one of `classes`.
    """
    name, start, stop = parse_split(split)
    path = find_split(locate(config.corpus), name, "conll")
    lines, repairs = read_text(path)
    texts: list[list[tuple[str, str]]] = [[]]
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if len(columns) == 1 or (classes and columns and columns[-1] not in classes):
            wanted = f"one of the labels {', '.join(classes)}" if classes else "a label"
            raise ValueError(
                f"{path} line {number} must be a word and {wanted}, not '{line[:60]}'."
            )
        if columns:
            texts[-1].append((columns[0], columns[-1]))
        elif texts[-1]:
            texts.append([])
    kept = part_of([text for text in texts if text], start, stop)
    if not kept:
        raise ValueError(f"The split '{split}' of {config.corpus} is empty.")
    for repair in repairs if classes else ():
        warnings.warn(repair, stacklevel=2)
    words, labels = ([" ".join(row[side] for row in text) for text in kept] for side in (0, 1))
    return words, labels, repairs
