"""One long text as ids -> batches for causal language models."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple, Self

import numpy as np

from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer

# Where a text is divided, as a long one needs much memory, into parts whose tokens are those of the
# whole. How GPT-2 splits a run of white space depends on what follows: its last space belongs to
# the word behind it, and of three line breaks before a letter two can be one token; at the end of a
# text, all three. So parts end at single line breaks between characters that are no white space,
# and before lines that begin with one space and a word, as all of WikiText do.
SEPARABLE = re.compile(r"(?<=\S\n)(?=\S)|(?<=\n)(?= \S)")


def encode_text(tokenizer: Tokenizer, lines: Sequence[str]) -> np.ndarray:
    """Returns the ids of one text: EOS ends each line, or all of it where line breaks are text.

    Two lines of the ids 5 6 and 7 become 5 6 2 7 2, or 5 6 9 7 2 with 9 for the line break.
    """
    if not tokenizer.line_breaks_are_text:
        return Ragged.encode(tokenizer, lines).flat
    encoded = Ragged.encode(tokenizer, SEPARABLE.split("\n".join(lines)))
    ends = encoded.starts + encoded.lengths - 1
    return np.delete(encoded.flat, ends[:-1])


class WindowBatch(NamedTuple):
    """Windows of a text, int32: `inputs` are the ids before the `targets`.

    Two windows of length 3 at the beginning of the text 7 8 9 5 6, which EOS precedes and padding
    follows:

        inputs   2 7 8    targets  7 8 9    weights  1 1 1
                 9 5 6             5 6 0             1 1 0
    """

    inputs: np.ndarray  # [B, T]
    targets: np.ndarray  # [B, T]
    weights: np.ndarray  # [B, T] float32: 1 on targets, 0 on padding

    @classmethod
    def zeros(cls, num_rows: int, length: int) -> Self:
        """Returns `num_rows` empty rows of `length`, for shapes only."""
        ids = np.zeros((num_rows, length), np.int32)
        return cls(ids, ids, ids.astype(np.float32))


@dataclass(eq=False)
class Windows:
    """`batches[step]` is a `WindowBatch` of windows of a text.

    With a seed they begin anywhere in it, for training. Without one every id is a target once, in
    order, in the first `batches_per_epoch` batches. Raises ValueError if a window to be drawn is
    longer than the text.
    """

    ids: np.ndarray  # of the text; then also what stands before and behind it
    _: KW_ONLY
    start: int  # the id that precedes the first one: EOS
    length: int
    rows_per_batch: int
    seed: int | None = None

    def __post_init__(self) -> None:
        self.num_ids, num_targets = len(self.ids), self.length * self.rows_per_batch
        if self.seed is not None and self.num_ids < self.length:
            raise ValueError(
                f"The text has {self.num_ids} pieces, less than one window of data.row_length "
                f"({self.length}); lower it."
            )
        self.batches_per_epoch = -(-self.num_ids // num_targets)
        ends = 1, self.batches_per_epoch * num_targets - self.num_ids
        self.ids = np.pad(self.ids, ends, constant_values=(self.start, 0)).astype(np.int32)

    def __getitem__(self, step: int) -> WindowBatch:
        if self.seed is None:
            rows = np.arange(step * self.rows_per_batch, (step + 1) * self.rows_per_batch)
            starts = rows * self.length
        else:
            rng = np.random.default_rng((self.seed, step))
            starts = rng.integers(0, self.num_ids + 1 - self.length, self.rows_per_batch)
        places = starts[:, None] + np.arange(self.length + 1)  # [B, T + 1]
        windows, weights = self.ids[places], places[:, 1:] <= self.num_ids
        return WindowBatch(windows[:, :-1], windows[:, 1:], weights.astype(np.float32))
