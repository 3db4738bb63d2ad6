"""Packed sentences -> the guessing game of a masked language model (Devlin et al. 2019, 3.1)."""

import numpy as np

from transformer.data.tokenizer import EOS, NUM_SPECIAL, UNK

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
