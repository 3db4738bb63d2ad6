"""Texts, pairs of texts and labelled words as the ids that an encoder reads.

A model with token types (`model.token_types`) reads them as BERT does, with our BOS for [CLS] and
EOS for [SEP]. A tab separates the two texts of a pair.
"""

from collections.abc import Sequence

import numpy as np

from transformer.config import ModelConfig
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer


def sides(texts: Sequence[str], model: ModelConfig) -> Sequence[str]:
    """Returns the texts one by one: with token types, both of every pair."""
    return [side for text in texts for side in text.split("\t", 1)] if model.token_types else texts


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], model: ModelConfig) -> Ragged:
    """Returns the ids of each text, or of each pair if the model has token types.

    With BOS = 1 and EOS = 2 the text "a b" and the pair "a<tab>c" become

        without token types    5 6 2      5 9 7 2   (9: a tab, if the tokenizer has an id for it)
        with                   1 5 6 2    1 5 2 7 2
    """
    encoded = Ragged.encode(tokenizer, sides(texts, model))
    if not model.token_types:
        return encoded
    bos, eos = tokenizer.special.bos, tokenizer.special.eos
    ids = encoded.flat[encoded.flat != bos]  # which some tokenizers put before every text
    last_sides = np.cumsum([1 + ("\t" in text) for text in texts], dtype=np.int64) - 1
    ends = np.flatnonzero(ids == eos)[last_sides] + 1
    starts = np.concatenate([[0], ends])[:-1].astype(np.int64)
    lengths = ends - starts + 1
    return Ragged.from_lengths(np.insert(ids, starts, bos), lengths)


def encode_words(
    tokenizer: Tokenizer, texts: Sequence[str], model: ModelConfig
) -> tuple[Ragged, Ragged]:
    """Returns (the ids of each text, the position of the first piece of each of its words).

    A word is encoded alone; one that has no piece in the vocabulary is UNK. With the pieces 5 6
    for "cats" and 7 for "sat", "cats sat" has the ids 5 6 7 2 and the positions 0 2; with
    `model.token_types` they are 1 5 6 7 2 and 1 3.
    """
    special = tokenizer.special
    start = [special.bos] * model.token_types
    distinct = sorted({word for text in texts for word in text.split()})
    encoded = map(tokenizer.without_control, tokenizer.encode(distinct))
    pieces = {word: ids or [special.unk] for word, ids in zip(distinct, encoded, strict=True)}
    rows = [[pieces[word] for word in text.split()] for text in texts]
    ids = [[*start, *(i for word in row for i in word), special.eos] for row in rows]
    lengths = [np.array([len(start), *map(len, row[:-1])] if row else []) for row in rows]
    return Ragged.from_lists(ids), Ragged.from_lists([np.cumsum(row) for row in lengths])


def label_first_pieces(source: Ragged, firsts: Ragged, classes: np.ndarray) -> Ragged:
    """Returns a target for each id of `source`: 1 + the class of a word at its first piece, else 0.

    classes: of all words, one after another. For the ids 5 6 7 2 with first pieces at 0 and 2 and
    the classes 3 and 0 the targets are 4 0 1 0.
    """
    targets = np.zeros(len(source.flat), np.int32)
    targets[np.repeat(source.starts, firsts.lengths) + firsts.flat] = 1 + classes
    return Ragged(targets, source.starts, source.lengths)
