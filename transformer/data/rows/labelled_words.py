"""Reads texts with a label for each word, and encodes words so that their first pieces are known.

A corpus is a folder of `train.conll` and the like (also .gz, .xz): on each line a word, white space
and its label, the first and last column where there are more; an empty line ends a text. In memory
a text is its words, and its labels too, with spaces between.
"""

from collections.abc import Sequence

import numpy as np

from transformer.config import DataConfig, ModelConfig
from transformer.data.files.labelled_text import LabelledTexts, read_split
from transformer.data.files.splits import parse_split, part_of
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer, strip_control_ids
from transformer.special_tokens import BOS, EOS, UNK


def load_labelled_words(
    config: DataConfig, split: str, classes: Sequence[str] = ()
) -> LabelledTexts:
    """Returns the texts and labels of a split.

    Raises ValueError if it cannot be read or is empty, or if a label is not one of `classes`.
    """
    path, lines, repairs = read_split(config, split, "conll", "a word and its label on a line")
    _, start, stop = parse_split(split)
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
    words, labels = ([" ".join(row[side] for row in text) for text in kept] for side in (0, 1))
    return LabelledTexts(words, labels, repairs)


def encode_words(
    tokenizer: Tokenizer, texts: Sequence[str], model: ModelConfig
) -> tuple[Ragged, Ragged]:
    """Returns (the ids of each text, the position of the first piece of each of its words).

    A word is encoded alone; one that has no piece in the vocabulary is UNK. With the pieces 5 6
    for "cats" and 7 for "sat", "cats sat" has the ids 5 6 7 2 and the positions 0 2; with
    `model.token_types` they are 1 5 6 7 2 and 1 3.
    """
    start = [BOS] * model.token_types
    distinct = sorted({word for text in texts for word in text.split()})
    encoded = map(strip_control_ids, tokenizer.encode(distinct))
    pieces = {word: ids or [UNK] for word, ids in zip(distinct, encoded, strict=True)}
    rows = [[pieces[word] for word in text.split()] for text in texts]
    ids = [[*start, *(i for word in row for i in word), EOS] for row in rows]
    lengths = [np.array([len(start), *map(len, row[:-1])] if row else []) for row in rows]
    return Ragged.from_lists(ids), Ragged.from_lists([np.cumsum(row) for row in lengths])


def label_first_pieces(source: Ragged, firsts: Ragged, classes: np.ndarray) -> Ragged:
    """Returns a target for each id of `source`: 1 + the class of a word at its first piece, else 0.

    classes: of all words, one after another. For the ids 5 6 7 2 with first pieces at 0 and 2 and
    the classes 3 and 0 the targets are 4 0 1 0.
    """
    targets = np.zeros(len(source.flat), np.int32)
    starts = source.starts[np.arange(len(source))]
    targets[np.repeat(starts, firsts.lengths) + firsts.flat] = 1 + classes
    return Ragged(targets, source.starts, source.lengths)
