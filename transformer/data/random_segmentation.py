"""Sentences in other pieces than their best ones, in rows of limited length.

A corpus holds ids, whose pieces spell the text: the best segmentation of a sentence goes in, and
one drawn at random comes out. What is drawn depends on a key of the sentence alone, so neither on
other sentences nor on what was drawn before.
"""

from typing import NamedTuple

import numpy as np

from transformer.data.bpe_dropout import STEP, BpeDropout
from transformer.data.permutation import mix
from transformer.data.ragged import Ragged


class Segmented(NamedTuple):
    """Sentences segmented at random.

    num_longer: the words that were split into more pieces than in the best segmentation;
    num_restored: how many of them got that back, as their row was full.
    """

    sentences: Ragged
    num_longer: int
    num_restored: int


def segment_rows(
    bpe: BpeDropout, sentences: Ragged, keys: np.ndarray, per_row: np.ndarray, row_length: int
) -> Segmented:
    """Segments the sentences of rows, of which the first per_row[0] are in row 0.

    keys: a random uint64 of each sentence. With their best segmentations the sentences of a row
    have at most `row_length` pieces; so they have with those that are returned.
    """
    if not len(sentences):
        return Segmented(sentences, 0, 0)
    words, keys, first_words = _words_of(bpe, sentences, keys)
    drawn = bpe.segment(words, keys)
    num_longer = int((drawn.lengths > words.lengths).sum())
    row = np.repeat(np.arange(len(per_row)), per_row)
    row = np.repeat(row, np.diff(first_words, append=len(words)))
    restored = _words_to_restore(words.lengths, drawn.lengths, row, row_length, keys)
    every = np.arange(len(words))
    starts, lengths = drawn.starts[every], drawn.lengths.copy()
    starts[restored] = words.starts[restored]  # the ids of `words` are the first of `drawn`
    lengths[restored] = words.lengths[restored]
    flat, _ = Ragged(drawn.flat, starts, lengths).gather(every)
    lengths = np.add.reduceat(lengths, first_words)
    return Segmented(Ragged(flat, np.cumsum(lengths) - lengths, lengths), num_longer, len(restored))


def growth(bpe: BpeDropout, sentences: Ragged, seed: int) -> float:
    """Returns how many times as many pieces sentences get on average if all rows hold them."""
    words, keys, _ = _words_of(bpe, sentences, random_keys((seed,), (len(sentences),)))
    return float(bpe.segment(words, keys).lengths.sum() / words.lengths.sum())


def random_keys(seed: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Returns random uint64 in an array of this shape."""
    return np.random.default_rng(seed).integers(2**64, size=shape, dtype=np.uint64)


def _words_of(
    bpe: BpeDropout, sentences: Ragged, keys: np.ndarray
) -> tuple[Ragged, np.ndarray, np.ndarray]:
    """Returns (the words of sentences, a key of each word, the first word of each sentence)."""
    ids, lengths = sentences.gather(np.arange(len(sentences)))
    first_pieces = np.cumsum(lengths) - lengths
    begins = bpe.begins_word[ids]
    begins[first_pieces] = True
    starts = np.flatnonzero(begins)
    first_words = np.searchsorted(starts, first_pieces)
    num_words = np.diff(first_words, append=len(starts))
    nth = np.arange(len(starts)) - np.repeat(first_words, num_words)
    keys = mix(np.repeat(keys, num_words) + nth.astype(np.uint64) * np.uint64(STEP))
    return Ragged(ids, starts, np.diff(starts, append=len(ids))), keys, first_words


def _words_to_restore(
    best: np.ndarray, drawn: np.ndarray, row: np.ndarray, row_length: int, keys: np.ndarray
) -> np.ndarray:
    """Returns the words that need their best segmentation back, so that no row is too long.

    best, drawn, row: each word's number of pieces in either segmentation, and its row, in order.

    In a row that is too full, words that became longer are restored, one after another in the order
    of their random keys, until it is not. A row for 8 pieces, whose words have 2 1 1 1 pieces at
    best and 4 1 3 2 as drawn, has 10, and 2 too many. In the order of words 3, 0, 2, which save 1,
    2 and 2 pieces, 0, 1 and 3 are saved before each: 3 and 0 are restored, and 2 1 3 1 fit.
    """
    gained = drawn - best
    excess = np.bincount(row, drawn).astype(np.int64) - row_length
    longer = np.flatnonzero((gained > 0) & (excess[row] > 0))
    longer = longer[np.lexsort((keys[longer], row[longer]))]
    rows, saved = row[longer], np.cumsum(gained[longer]) - gained[longer]
    saved_in_row = saved - saved[np.searchsorted(rows, rows)]
    return longer[saved_in_row < excess[rows]]
