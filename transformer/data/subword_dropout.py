"""Subword regularisation: the pairs of a batch are segmented anew each time that one shows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from transformer.config import DataConfig
from transformer.data.bpe_dropout import BpeDropout
from transformer.data.ragged import Ragged
from transformer.data.random_segmentation import Segmented, growth, segment_rows
from transformer.data.tokenizer import SentencePieceTokenizer, Tokenizer
from transformer.data.workers import Workers, num_cores

SAMPLE = 4096  # sentences from which the growth is measured
POSITIONS_PER_WORKER = 12_500  # of targets, that a worker segments in some 25 ms


class Rows(NamedTuple):
    """Pairs in rows, of which the first pairs_per_row[0] are in row 0.

    sides: the sentences. keys [2, pairs]: a random uint64 of each. shape: (S, T) of the rows.
    """

    sides: Sequence[Ragged]
    keys: np.ndarray
    pairs_per_row: np.ndarray
    shape: tuple[int, int]

    def split(self, number: int) -> list["Rows"]:
        """Returns them in parts of about as many pairs, each with no other ids than its own."""
        stops = np.cumsum(self.pairs_per_row)
        cuts = np.searchsorted(stops, stops[-1] * np.arange(1, number) / number)
        parts, first = [], 0
        for pairs_per_row in np.split(self.pairs_per_row, cuts):
            pairs = np.arange(first, first + pairs_per_row.sum())
            sides = [side.copy(pairs) for side in self.sides]
            parts.append(Rows(sides, self.keys[:, pairs], pairs_per_row, self.shape))
            first += len(pairs)
        return parts


@dataclass
class SegmentRows:
    """Segments both sides of rows; it is what a worker process gets."""

    sides: Sequence[BpeDropout]

    def __call__(self, rows: Rows) -> list[Segmented]:
        return [
            segment_rows(bpe, sentences, keys, rows.pairs_per_row, length)
            for bpe, sentences, keys, length in zip(
                self.sides, rows.sides, rows.keys, rows.shape, strict=True
            )
        ]


class SubwordDropout:
    """Segments the pairs of batches by BPE-dropout: `SubwordDropout(tokenizers, rate)(rows)`."""

    def __init__(self, tokenizers: Sequence[Tokenizer], rate: float, num_workers: int = 1) -> None:
        """Takes the tokenizers of source and target.

        rate: of merges that are dropped. num_workers: processes that share the rows of a batch; 1:
        none but this one. Raises ValueError unless the pieces of both sides are made by BPE.
        """
        bpe = {tokenizer: _bpe(tokenizer, rate) for tokenizer in dict.fromkeys(tokenizers)}
        self._segment_rows = SegmentRows([bpe[tokenizer] for tokenizer in tokenizers])
        self.num_workers = num_workers

    def growth(self, sides: Sequence[Ragged], seed: int) -> tuple[float, float]:
        """Returns how many times as many pieces the sentences of either side get, by a sample."""
        sample = np.unique(np.linspace(0, len(sides[0]) - 1, SAMPLE).astype(np.int64))
        source, target = (
            growth(bpe, side.take(sample), seed)
            for bpe, side in zip(self._segment_rows.sides, sides, strict=True)
        )
        return source, target

    def __call__(self, rows: Rows) -> list[Segmented]:
        """Returns both sides of the rows; the number of workers changes nothing in them."""
        if self.num_workers == 1:
            return self._segment_rows(rows)
        parts = [self._workers.submit(part) for part in rows.split(self.num_workers)]
        return [_joined(side) for side in zip(*(part.result() for part in parts), strict=True)]

    @cached_property
    def _workers(self) -> Workers[Rows, list[Segmented]]:
        return Workers(self._segment_rows, self.num_workers)


def _bpe(tokenizer: Tokenizer, rate: float) -> BpeDropout:
    if not isinstance(tokenizer, SentencePieceTokenizer):
        raise ValueError(
            f"data.subword_dropout={rate} needs SentencePiece on both sides, not a "
            f"{type(tokenizer).__name__}: set data.subword_dropout=0, or "
            f"tokenizer.kind=sentencepiece."
        )
    return BpeDropout(tokenizer.model, rate)


def _joined(parts: Sequence[Segmented]) -> Segmented:
    sentences, num_longer, num_restored = zip(*parts, strict=True)
    return Segmented(Ragged.concatenate(sentences), sum(num_longer), sum(num_restored))


def make_subword_dropout(
    data: DataConfig, tokenizers: Sequence[Tokenizer], num_positions: int
) -> SubwordDropout | None:
    """Returns what `data.subword_dropout` asks for, None if that is nothing.

    num_positions: of targets in the part of a batch that this host makes. As many processes share
    it as are worth starting; by default one core is left to the program itself.
    """
    if not data.subword_dropout:
        return None
    most = data.prepare_workers or num_cores() - 1
    num_workers = max(1, min(most, num_positions // POSITIONS_PER_WORKER))
    return SubwordDropout(tokenizers, data.subword_dropout, num_workers)


def grown(lengths: np.ndarray, growth: float, most: int) -> np.ndarray:
    """Returns lengths to plan with: multiplied, but at most `most` unless they were more before.

    growth 1.2, most 10: of 4, 9 and 11 become 5, 10 and 11.
    """
    before = np.arange(int(lengths.max(initial=0)) + 1)
    after = np.maximum(before, np.minimum(np.rint(growth * before), most))
    return after.astype(lengths.dtype)[lengths]
