"""Tiny models and batches for the tests; a batch is drawn as rows of (source ids, target ids) pairs."""

import numpy as np

from transformer.batching import Batch, Ragged, fill_rows, shift_right
from transformer.config import ModelConfig
from transformer.models import Transformer
from transformer.tokenizer import EOS, NUM_SPECIAL

VOCAB_SIZE = 12


def tiny_config(**changes):
    """A two-layer model without dropout, changed as told."""
    tiny = dict(d_model=16, d_ff=32, num_heads=2, num_layers=2, dropout_rate=0.0, max_positions=16)
    return ModelConfig(**(tiny | changes))


def tiny_model(**changes):
    return Transformer(tiny_config(**changes), VOCAB_SIZE, VOCAB_SIZE)


def sentence(rng, length):
    """`length` random ids, the last of them EOS."""
    return [*rng.integers(NUM_SPECIAL, VOCAB_SIZE, length - 1).tolist(), EOS]


def make_batch(rows, source_length, target_length):
    """rows: lists of (source ids, target ids), packed one after the other; an empty list is padding."""
    pairs = [pair for row in rows for pair in row]
    counts = np.array([len(row) for row in rows])
    sides = []
    for side, length in ((0, source_length), (1, target_length)):
        flat = np.array([i for pair in pairs for i in pair[side]], np.int32)
        ragged = Ragged(flat, np.array([len(pair[side]) for pair in pairs], np.int64))
        sides.append(fill_rows(ragged, np.arange(len(pairs)), counts, length))
    source, target = sides
    return Batch(*source, shift_right(target[0], target[2]), *target)
