"""One long text as ids -> batches of windows of it, for a language model that reads from the left.

A batch is a pure function of (seed, step), as in `batching`.
"""

from typing import NamedTuple

import numpy as np

from transformer.special_tokens import EOS, NUM_SPECIAL, PAD, UNK


class WindowBatch(NamedTuple):
    """Rows of consecutive ids, int32: `targets` [B, T], and `inputs`, the id before each."""

    inputs: np.ndarray
    targets: np.ndarray

    @property
    def weights(self):
        """[B, T]: 1 on real targets, 0 on padding."""
        return (self.targets != PAD).astype(np.float32)


class RandomWindows:
    """`batches[step]`: a `WindowBatch` of rows that begin anywhere in the text."""

    def __init__(self, ids, *, length, rows_per_batch, seed):
        self.ids, self.length, self.rows_per_batch = _with_start(ids), length, rows_per_batch
        self.seed = seed
        if len(ids) < length:
            raise ValueError(
                f"The text has {len(ids)} pieces, less than one window of data.row_length "
                f"({length}); lower it."
            )
        self.batches_per_epoch = -(-len(ids) // (length * rows_per_batch))

    def __getitem__(self, step):
        rng = np.random.default_rng((self.seed, step))
        starts = rng.integers(0, len(self.ids) - self.length, self.rows_per_batch)
        return _windows(self.ids, starts, self.length)

    def plan_ahead(self, step):
        """Nothing is planned."""


class ConsecutiveWindows:
    """`batches[step]` for as many as `batches_per_epoch`: every id is a target once, in order."""

    def __init__(self, ids, *, length, rows_per_batch):
        self.length, self.rows_per_batch = length, rows_per_batch
        self.num_windows = -(-len(ids) // length)
        self.batches_per_epoch = -(-self.num_windows // rows_per_batch)
        missing = self.batches_per_epoch * rows_per_batch * length - len(ids)
        self.ids = np.pad(_with_start(ids), (0, missing), constant_values=PAD)

    def __getitem__(self, step):
        first = step * self.rows_per_batch
        starts = np.arange(first, first + self.rows_per_batch) * self.length
        return _windows(self.ids, starts, self.length)


def _with_start(ids):
    """Before the first piece stands an end: what separates sentences also begins the text."""
    return np.concatenate([[EOS], ids]).astype(np.int32)


def _windows(ids, starts, length):
    rows = ids[starts[:, None] + np.arange(length + 1)]
    return WindowBatch(rows[:, :-1], rows[:, 1:])


MASK = UNK  # what stands for a piece that is hidden; byte fallback leaves UNK without other use


HIDDEN, SWAPPED = 0.8, 0.1  # of the chosen pieces; the others are shown as they are


class MaskedBatches:
    """`batches[step]`: a `Batch` of `packed`, of which a share `rate` of the pieces is hidden.

    packed: a `PackedBatches` whose source and target are the same sentences, so that its rows are
    alike. `target_segments` are 0 where nothing is to be guessed. A pure function of (seed, step).
    """

    def __init__(self, packed, *, rate, vocab_size, seed):
        self.packed, self.rate, self.vocab_size, self.seed = packed, rate, vocab_size, seed
        self.rows_per_batch, self.batches_per_epoch = (
            packed.rows_per_batch,
            packed.batches_per_epoch,
        )
        self.plan_ahead = packed.plan_ahead

    def __getitem__(self, step):
        batch = self.packed[step]
        rng = np.random.default_rng((self.seed, step, 1))  # 1: not the packing's numbers
        can_be = (batch.input_segments != 0) & (batch.inputs != EOS)
        chosen = can_be & (rng.random(batch.inputs.shape) < self.rate)
        how = rng.random(batch.inputs.shape)
        other = rng.integers(NUM_SPECIAL, self.vocab_size, batch.inputs.shape)
        shown = np.where(how < HIDDEN, MASK, np.where(how < HIDDEN + SWAPPED, other, batch.inputs))
        return batch._replace(
            inputs=np.where(chosen, shown, batch.inputs).astype(np.int32),
            target_segments=np.where(chosen, batch.target_segments, 0).astype(np.int32),
        )
