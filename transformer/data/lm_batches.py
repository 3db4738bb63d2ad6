"""One long text as ids -> batches for language models, causal or masked.

A batch is a function of (seed, step), as in `packing`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from transformer.data.batch import Batch
from transformer.data.packing import PackedBatches
from transformer.data.ragged import Ragged
from transformer.data.tokenizer import Tokenizer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK


def encode_text(tokenizer: Tokenizer, lines: Sequence[str]) -> np.ndarray:
    """Returns the ids of one text: EOS ends each line, or all of it where line breaks are text.

    Two lines of the ids 5 6 and 7 become 5 6 2 7 2, or 5 6 9 7 2 with 9 for the line break.
    """
    if not tokenizer.line_breaks_are_text:
        return Ragged.encode(tokenizer, lines).flat
    encoded = Ragged.encode(tokenizer, list(_separable_parts(lines)))
    ends = encoded.starts + encoded.lengths - 1
    return np.delete(encoded.flat, ends[:-1])


def _separable_parts(lines: Sequence[str]) -> Iterator[str]:
    """Yields a text in parts whose tokens are those of the whole: a long one needs much memory.

    How GPT-2 splits a run of white space depends on what follows: its last space belongs to the
    word behind it, and of three line breaks before a letter two can be one token; at the end of a
    text, all three. So a text is divided after single line breaks between characters that are no
    white space, and before lines that begin with one space and a word, as all of WikiText do.
    """
    part: list[str] = []
    for line in lines:
        is_alone = part and part[-1][-1:].strip() and line[:1].strip()
        if is_alone or (part and line[:1] == " " and line[1:2].strip()):
            yield "\n".join([*part, ""])
            part = []
        part.append(line)
    yield "\n".join(part)


class WindowBatch(NamedTuple):
    """Windows of a text, int32: `inputs` are the ids before the `targets`.

    Two windows of length 3 at the beginning of the text 7 8 9 5 6, which EOS precedes and PAD
    follows:

        inputs   2 7 8    targets  7 8 9
                 9 5 6             5 6 0
    """

    inputs: np.ndarray  # [B, T]
    targets: np.ndarray  # [B, T]

    @property
    def weights(self) -> np.ndarray:
        """[B, T] float32: 1 on targets, 0 on padding."""
        return (self.targets != PAD).astype(np.float32)


class RandomWindows:
    """`batches[step]` is a `WindowBatch` whose windows begin anywhere in the text, for training."""

    def __init__(self, ids: np.ndarray, *, length: int, rows_per_batch: int, seed: int) -> None:
        """Raises ValueError if the text `ids` is shorter than one window of `length` ids."""
        self.ids, self.length, self.rows_per_batch = _with_start(ids), length, rows_per_batch
        self.seed = seed
        if len(ids) < length:
            raise ValueError(
                f"The text has {len(ids)} pieces, less than one window of data.row_length "
                f"({length}); lower it."
            )
        self.batches_per_epoch = -(-len(ids) // (length * rows_per_batch))

    def __getitem__(self, step: int) -> WindowBatch:
        rng = np.random.default_rng((self.seed, step))
        starts = rng.integers(0, len(self.ids) - self.length, self.rows_per_batch)
        return _windows(self.ids, starts, self.length)

    def plan_ahead(self, step: int) -> None:
        """Does nothing: a batch of windows needs no plan."""


class ConsecutiveWindows:
    """`batches[step]`, for `batches_per_epoch` steps: every id is a target once, in order."""

    def __init__(self, ids: np.ndarray, *, length: int, rows_per_batch: int) -> None:
        self.length, self.rows_per_batch = length, rows_per_batch
        self.num_windows = -(-len(ids) // length)
        self.batches_per_epoch = -(-self.num_windows // rows_per_batch)
        missing = self.batches_per_epoch * rows_per_batch * length - len(ids)
        self.ids = np.pad(_with_start(ids), (0, missing), constant_values=PAD)

    def __getitem__(self, step: int) -> WindowBatch:
        first = step * self.rows_per_batch
        starts = np.arange(first, first + self.rows_per_batch) * self.length
        return _windows(self.ids, starts, self.length)


def _with_start(ids: np.ndarray) -> np.ndarray:
    """Puts EOS before the text: the separator of sentences also begins the first one."""
    return np.concatenate([[EOS], ids]).astype(np.int32)


def _windows(ids: np.ndarray, starts: np.ndarray, length: int) -> WindowBatch:
    rows = ids[starts[:, None] + np.arange(length + 1)]  # [B, T + 1]
    return WindowBatch(rows[:, :-1], rows[:, 1:])


MASK = UNK  # stands for a hidden token; with byte fallback UNK has no other use
HIDDEN, SWAPPED = 0.8, 0.1  # shares of the tokens to guess; the others are shown unchanged


class MaskedBatches:
    """`batches[step]` is a batch of `packed` in which some tokens are to be guessed.

    As in BERT (section 3.1) a token is to be guessed with probability `rate`, unless it is BOS or
    EOS. Its input is then MASK (80%), a random token (10%) or itself (10%). `target_segments` are 0
    on every other token. An example with EOS = 2, MASK = 3 and 6 and 9 to be guessed:

        packed.inputs     5 6 7 2 8 9 2 0       targets           5 6 7 2 8 9 2 0
        inputs            5 3 7 2 8 9 2 0       target_segments   0 1 0 0 0 2 0 0
    """

    def __init__(self, packed: PackedBatches, *, rate: float, vocab_size: int, seed: int) -> None:
        """Takes packed batches whose source and target are the same sentences."""
        self.packed, self.rate, self.vocab_size, self.seed = packed, rate, vocab_size, seed
        self.rows_per_batch = packed.rows_per_batch
        self.batches_per_epoch = packed.batches_per_epoch
        self.plan_ahead = packed.plan_ahead

    def __getitem__(self, step: int) -> Batch:
        return self.part(step, 0, self.rows_per_batch)

    def part(self, step: int, start: int, stop: int) -> Batch:
        """Returns the batch of a step in which only the rows from `start` to `stop` are filled."""
        batch = self.packed.part(step, start, stop)
        rng = np.random.default_rng((self.seed, step, 1))  # 1: a stream apart from the packing's
        is_maskable = (batch.input_segments != 0) & ~np.isin(batch.inputs, (BOS, EOS))
        is_chosen = is_maskable & (rng.random(batch.inputs.shape) < self.rate)
        draw = rng.random(batch.inputs.shape)
        other = rng.integers(NUM_SPECIAL, self.vocab_size, batch.inputs.shape)
        shown = np.where(draw < HIDDEN + SWAPPED, other, batch.inputs)
        shown = np.where(draw < HIDDEN, MASK, shown)
        return batch._replace(
            inputs=np.where(is_chosen, shown, batch.inputs).astype(np.int32),
            target_segments=np.where(is_chosen, batch.target_segments, 0).astype(np.int32),
        )
