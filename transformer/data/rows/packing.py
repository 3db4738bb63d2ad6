"""Packs sentence pairs into batches of one static shape; a batch is a function of (seed, step)."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass

import numpy as np

from transformer.data.rows.batch import Batch
from transformer.data.rows.bpe_dropout import SubwordDropout, random_keys
from transformer.data.rows.epoch_plan import CorpusPart, EpochPlan
from transformer.data.rows.ragged import Ragged

SENTENCE_LENGTH = 32  # tokens, about the mean of news text
SUBWORDS = 2  # a stream of random numbers apart from those of the plan


def full_rows(batch_tokens: int, row_length: int) -> np.ndarray:
    """Returns lengths of sentences that fill a batch: those of a text that is not at hand."""
    num_tokens = num_rows_of_batch(batch_tokens, row_length) * row_length
    return np.full(num_tokens // SENTENCE_LENGTH, SENTENCE_LENGTH)


def num_rows_of_batch(batch_tokens: int, row_length: int) -> int:
    """Returns how many rows `batch_tokens` target positions allow: a multiple of 8 if more than 8.

    The number does not depend on the devices at hand, so that a run can resume on others. Raises
    ValueError if not even one row fits.
    """
    rows = batch_tokens // row_length
    if not rows:
        least = f"data.row_length ({row_length}), which is one row"
        raise ValueError(f"training.batch_tokens ({batch_tokens}) must be at least {least}.")
    return rows - rows % 8 if rows > 8 else rows


def choose_source_length(lengths: Sequence[np.ndarray], row_length: int, too_long: float) -> int:
    """Returns the S with which both sides of a row fill up alike, where T = row_length.

    It is raised until at most a share `too_long` of the sources are longer. A few sources as long
    as T would else lengthen the source side of every row, to remain empty: where S = 118 would do,
    one source of 128 tokens in a million takes 4% off the fill.
    """
    source, target = lengths
    proportional = round(row_length * float(source.sum() / target.sum()))
    num_shorter = len(source) - 1 - int(too_long * len(source))
    return max(proportional, int(np.partition(source, num_shorter)[num_shorter]))


@dataclass(eq=False)
class PackedBatches:
    """`batches[step]` is a `Batch` of B rows, for every step from 0 on, epoch after epoch.

    Rows that hold 4 or more sentences of mean length are filled to 95-99% with tokens, rows that
    hold 2 to 87-92%. The first `batches_per_epoch` batches hold each pair once, for evaluation.
    Raises ValueError if a target fits no row.
    """

    source: Ragged
    target: Ragged
    _: KW_ONLY
    row_length: int  # T, target tokens per row
    source_length: int = 0  # S, source tokens per row; 0: as of `choose_source_length`
    rows_per_batch: int
    seed: int
    parts: Sequence[CorpusPart] = ()  # the corpora that the pairs belong to, in order; (): one
    too_long: float = 0.0  # the share of pairs that S may leave out; `num_too_long` counts them
    subword_dropout: SubwordDropout | None = None  # segments a pair anew each time it is shown

    def __post_init__(self) -> None:
        lengths, row_length = [self.source.lengths, self.target.lengths], self.row_length
        if (longest := int(lengths[1].max())) > row_length:
            raise ValueError(f"A target of {longest} tokens fits no row of {row_length}.")
        dropout = self.subword_dropout
        plan = dropout.planned_lengths if dropout else lambda lengths, _: lengths
        planned = plan(lengths, (row_length, row_length))
        best = choose_source_length(planned, row_length, self.too_long)
        self.shape = self.source_length or best, row_length
        self.num_too_long = int((lengths[0] > self.shape[0]).sum())
        parts, planned = self.parts or [CorpusPart(len(self.source))], plan(lengths, self.shape)
        self.plan = EpochPlan(planned, self.shape, self.rows_per_batch, self.seed, parts)
        self.batches_per_epoch = self.plan.batches_per_epoch

    def __getitem__(self, step: int) -> Batch:
        return self.part(step, 0, self.rows_per_batch)

    def part(self, step: int, start: int, stop: int) -> Batch:
        """Returns the batch of a step in which only the rows from `start` to `stop` are filled.

        It is what one of several hosts needs, and the sentences of the other rows are not read.
        """
        pairs, pairs_per_row = self.plan.rows(step)
        rows = np.arange(len(pairs_per_row))
        is_wanted = (rows >= start) & (rows < stop)
        is_shown = np.repeat(is_wanted, pairs_per_row)
        pairs, pairs_per_row = pairs[is_shown], pairs_per_row * is_wanted
        sides = [self.source, self.target]
        if self.subword_dropout:
            # The key of a pair goes with its place in the whole batch.
            keys = random_keys((self.seed, step, SUBWORDS), (2, len(is_shown)))[:, is_shown]
            sides = [side.take(pairs) for side in sides]
            sides = self.subword_dropout(sides, keys, pairs_per_row, self.shape)
            pairs = np.arange(len(pairs))
        return Batch.from_pairs(sides, pairs, pairs_per_row, self.shape)

    def sample_lengths(self) -> tuple[np.ndarray, float]:
        """Returns (lengths [2, pairs] of a random sample of pairs, how many steps it fills)."""
        share = len(self.plan.sample) / self.plan.pairs_per_epoch
        return self.plan.lengths_of(self.plan.sample), share * self.batches_per_epoch

    def fill(self, num_batches: int = 1) -> float:
        """Returns the share of positions that hold a token, in the first `num_batches` batches."""
        batches = [self[step] for step in range(min(num_batches, self.batches_per_epoch))]
        segments = [np.hstack([batch.input_segments, batch.target_segments]) for batch in batches]
        return float((np.stack(segments) != 0).mean())
