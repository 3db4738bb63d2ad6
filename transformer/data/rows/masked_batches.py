"""Packed sentences -> batches for masked language models, which guess some of their tokens."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import accumulate, chain, groupby
from typing import NamedTuple, Self

import numpy as np

from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.special_tokens import OWN_IDS, SpecialIds

HIDDEN, SWAPPED = 0.8, 0.1  # shares of the tokens to guess; the others are shown unchanged
IS_NEXT, IS_OTHER = 0, 1  # in BERT's order


class MaskedBatch(NamedTuple):
    """Sentences in rows as in `Batch`, and the tokens of each row that are to be guessed, int32.

    A model scores the vocabulary at these `columns` alone, about a quarter of a row's. For example,
    with EOS = 2, MASK = 3, K = 4, and 6 and 9 to be guessed, of which 9 is shown unchanged:

        the row           5 6 7 2 8 9 2 0       columns           1 5 0 0
        inputs            5 3 7 2 8 9 2 0       targets           6 9 0 0
                                                weights           1 1 0 0
    """

    inputs: np.ndarray  # [B, S]
    input_segments: np.ndarray  # [B, S]
    input_positions: np.ndarray  # [B, S]
    pair_labels: np.ndarray  # [B, S] IS_NEXT or IS_OTHER where a pair begins; else without meaning
    columns: np.ndarray  # [B, K] of a row's S
    targets: np.ndarray  # [B, K]
    weights: np.ndarray  # [B, K] float32: 1 on targets, 0 behind the last one of a row

    @classmethod
    def zeros(cls, num_rows: int, length: int, rate: float) -> Self:
        """Returns `num_rows` empty rows of `length`, for shapes only."""
        ids = np.zeros((num_rows, length), np.int32)
        guesses = np.zeros((num_rows, most_to_guess(length, rate)), np.int32)
        return cls(ids, ids, ids, ids, guesses, guesses, guesses.astype(np.float32))


def most_to_guess(length: int, rate: float) -> int:
    """Returns K, how many tokens of a row may be to guess: hardly one row of 10,000 has more.

    The mean and four standard deviations of a binomial, as a multiple of 8: of 256 tokens 38.4 and
    4 · 5.7 at the rate of 0.15 (BERT's `max_predictions_per_seq`, 20 of 128, is hardly its mean).

    >>> most_to_guess(256, 0.15), most_to_guess(8, 0.15)
    (64, 8)
    """
    mean = length * rate
    most = mean + 4 * math.sqrt(mean * (1 - rate))
    return min(length, 8 * math.ceil(most / 8))


@dataclass(eq=False)
class MaskedBatches:
    """`batches[step]` is a `MaskedBatch` of the rows of `packed[step]`.

    As in BERT (section 3.1) a token but BOS and EOS is to be guessed with probability `rate`, up to
    `most_to_guess` in a row. Its input is then MASK (80%), a random token (10%) or itself (10%).
    """

    packed: PackedBatches  # of sentences whose targets are the same but for the labels of pairs
    _: KW_ONLY
    rate: float
    vocab_size: int
    seed: int
    special: SpecialIds = OWN_IDS

    def __post_init__(self) -> None:
        self.rows_per_batch = self.packed.rows_per_batch
        self.batches_per_epoch = self.packed.batches_per_epoch
        self.random_ids = self.special.others(self.vocab_size)

    def __getitem__(self, step: int) -> MaskedBatch:
        return self.part(step, 0, self.rows_per_batch)

    def part(self, step: int, start: int, stop: int) -> MaskedBatch:
        """Returns the batch of a step in which only the rows from `start` to `stop` are filled."""
        batch = self.packed.part(step, start, stop)
        ids, most = batch.inputs, most_to_guess(batch.inputs.shape[1], self.rate)
        rng = np.random.default_rng((self.seed, step, 1))  # 1: a stream apart from the packing's
        ends = self.special.bos, self.special.eos
        is_maskable = (batch.input_segments != 0) & ~np.isin(ids, ends)
        is_chosen = is_maskable & (rng.random(ids.shape) < self.rate)
        is_chosen &= is_chosen.cumsum(axis=1) <= most
        draw = rng.random(ids.shape)
        other = self.random_ids[rng.integers(len(self.random_ids), size=ids.shape)]
        shown = np.where(draw < HIDDEN + SWAPPED, other, ids)
        shown = np.where(draw < HIDDEN, self.special.mask, shown)
        chosen_first = np.argsort(~is_chosen, axis=1, kind="stable")[:, :most]
        is_target = np.take_along_axis(is_chosen, chosen_first, axis=1)
        targets = np.take_along_axis(ids, chosen_first, axis=1)
        return MaskedBatch(
            inputs=np.where(is_chosen, shown, ids).astype(np.int32),
            input_segments=batch.input_segments,
            input_positions=batch.input_positions,
            pair_labels=batch.targets,
            columns=np.where(is_target, chosen_first, 0).astype(np.int32),
            targets=np.where(is_target, targets, 0),
            weights=is_target.astype(np.float32),
        )


# ---- pairs of consecutive pieces of documents, and pairs that are not


def make_sentence_pairs(
    tokenizer: Tokenizer, lines: Sequence[str], *, length: int, seed: int
) -> tuple[Ragged, Ragged, int]:
    """Returns (pairs as [CLS] first [SEP] second [SEP], their targets, number of ids cut off).

    The targets are the same ids, but IS_NEXT or IS_OTHER in the place of [CLS], which is never
    masked. lines: a sentence each; an empty one ends a document. Sentences of a document are
    gathered until they fill a pair of `length` ids, and divided at random. With probability 1/2,
    and where only one is left, the second text is a random piece of another document, and what it
    replaces begins the next pair. The longer text is cut where both are too long (Devlin et al.
    2019, section 3.1 and appendix A.2). Raises ValueError for fewer than two documents.
    """
    sentences = zip(lines, map(tokenizer.without_control, tokenizer.encode(lines)), strict=True)
    grouped = groupby(sentences, key=lambda sentence: bool(sentence[0].strip()))
    documents = [[ids for _, ids in group] for is_document, group in grouped if is_document]
    if len(documents) < 2:
        raise ValueError("model.next_sentence needs two documents, divided by empty lines.")
    rows, labels, num_cut = [], [], 0
    bos, eos = tokenizer.special.bos, tokenizer.special.eos
    for first, second, label in _pairs(documents, length - 3, seed):
        while len(first) + len(second) > length - 3:
            (first if len(first) > len(second) else second).pop()
            num_cut += 1
        rows.append([bos, *first, eos, *second, eos])
        labels.append(label)
    source = Ragged.from_lists(rows)
    targets = source.flat.copy()
    targets[source.starts] = labels
    return source, Ragged(targets, source.starts, source.lengths), num_cut


def _pairs(
    documents: Sequence[list[list[int]]], num_ids: int, seed: int
) -> Iterator[tuple[list[int], list[int], int]]:
    """Yields (ids of the first text, ids of the second, IS_NEXT or IS_OTHER)."""
    rng = np.random.default_rng(seed)
    for number, document in enumerate(documents):
        start = 0
        while start < len(document):
            stop = _end_of(document, start, num_ids)
            middle = start + int(rng.integers(1, max(2, stop - start)))
            first = [*chain.from_iterable(document[start:middle])]
            if middle < stop and rng.random() < 0.5:
                yield first, [*chain.from_iterable(document[middle:stop])], IS_NEXT
                start = stop
                continue
            other = documents[(number + int(rng.integers(1, len(documents)))) % len(documents)]
            place = int(rng.integers(len(other)))
            end = _end_of(other, place, num_ids - len(first))
            yield first, [*chain.from_iterable(other[place:end])], IS_OTHER
            start = middle


def _end_of(document: Sequence[list[int]], start: int, num_ids: int) -> int:
    """Returns the end of the fewest sentences from `start` on with `num_ids` ids; one at least.

    >>> _end_of([[4], [5, 6], [7]], 0, 2), _end_of([[4], [5, 6], [7]], 2, 9)
    (2, 3)
    """
    totals = accumulate(len(document[i]) for i in range(start, len(document)))
    return next((start + n for n, total in enumerate(totals, 1) if total >= num_ids), len(document))
