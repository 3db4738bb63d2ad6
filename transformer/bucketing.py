"""Sentences -> batches to search, of a few static shapes: a sentence's own length chooses its own.

So a translation does not depend on what else is translated. Training packs instead (`batching`).
"""

import numpy as np

from transformer.tokenizer import EOS

SHORTEST_BUCKET = 16  # source lengths are rounded up to 16, 32, 64, …
SMALL_BATCHES = (1, 8)  # besides the full size: a single sentence need not pay for 64


def plan_batches(lengths, largest_bucket, batch_size):
    """Yields (indices of sentences, (rows, source length)) of each batch, long ones first.

    lengths: pieces of each sentence; those above `largest_bucket` go into it and have to be cut.
    There are at most as many shapes as buckets times three sizes of batch.
    """
    buckets = SHORTEST_BUCKET * 2 ** np.ceil(np.log2(np.maximum(lengths / SHORTEST_BUCKET, 1)))
    buckets = np.minimum(buckets, largest_bucket).astype(int)
    for bucket in sorted(set(buckets.tolist()), reverse=True):
        inside = np.flatnonzero(buckets == bucket)
        inside = inside[np.argsort(-lengths[inside], kind="stable")]
        while len(inside):
            rows = next((n for n in SMALL_BATCHES if len(inside) <= n < batch_size), batch_size)
            yield inside[:rows], (rows, bucket)
            inside = inside[rows:]


def fill_inputs(source, indices, shape):
    """(ids [rows, S], lengths [rows], number of sentences cut) of the sentences at `indices`.

    source: a `Ragged`. Rows without a sentence repeat the first one, which costs no extra step.
    """
    rows, length = shape
    inputs, lengths = np.zeros(shape, np.int32), np.zeros(rows, np.int32)
    num_cut = 0
    for row in range(rows):
        ids = source[indices[row] if row < len(indices) else indices[0]]
        if len(ids) > length:
            ids = np.append(ids[: length - 1], EOS)
            num_cut += row < len(indices)
        inputs[row, : len(ids)] = ids
        lengths[row] = len(ids)
    return inputs, lengths, num_cut
