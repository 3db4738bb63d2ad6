"""Sentences -> batches to search, of a few static shapes: a sentence's own length chooses its own.

So a translation does not depend on what else is translated. Training packs instead (`batching`).
"""

import numpy as np

from transformer.special_tokens import EOS

SHORTEST_BUCKET = 16  # source lengths are rounded up to 16, 32, 64, …
SMALL_BATCHES = (1, 8, 24)  # besides the larger ones: a single sentence need not pay for 64
FULL_UP_TO = 64  # pieces; batches of longer sentences have fewer rows, to need no more memory


def bucket_lengths(largest):
    """The lengths that source sentences are padded to."""
    sizes = [SHORTEST_BUCKET]
    while sizes[-1] < largest:
        sizes.append(min(2 * sizes[-1], largest))
    return sizes


def batch_sizes(batch_size, bucket):
    """The sizes of batch that a bucket may have, small ones first."""
    full = max(1, batch_size * FULL_UP_TO // max(bucket, FULL_UP_TO))
    three_quarters = full * 3 // 4 // 8 * 8
    return sorted({n for n in (*SMALL_BATCHES, three_quarters) if 0 < n < full} | {full})


def plan_batches(lengths, largest_bucket, batch_size, num_replicas=1):
    """Yields (indices [replicas, rows], source length) of each batch, long sentences first.

    lengths: pieces of each sentence; those above `largest_bucket` go into it and have to be cut. An
    index of -1 is a row without a sentence.
    """
    sizes = np.array(bucket_lengths(largest_bucket))
    chosen = sizes[np.searchsorted(sizes, np.minimum(lengths, largest_bucket))]
    for bucket in sorted(set(chosen.tolist()), reverse=True):
        inside = np.flatnonzero(chosen == bucket)
        inside = inside[np.argsort(-lengths[inside], kind="stable")]
        rows = batch_sizes(batch_size, bucket)
        while len(inside):
            size = next((n for n in rows if len(inside) <= n * num_replicas), rows[-1])
            batch = np.full(size * num_replicas, -1)
            batch[: len(inside)] = inside[: len(batch)]
            yield batch.reshape(size, num_replicas).T, bucket
            inside = inside[len(batch) :]


def fill_inputs(source, indices, length):
    """(ids [rows, S], lengths [rows], number of sentences cut) of the sentences at `indices`.

    source: a `Ragged`. A row without a sentence (index -1) has length 0.
    """
    inputs = np.zeros((len(indices), length), np.int32)
    lengths = np.zeros(len(indices), np.int32)
    num_cut = 0
    for row in np.flatnonzero(indices >= 0):
        ids = source[indices[row]]
        if len(ids) > length:
            ids = np.append(ids[: length - 1], EOS)
            num_cut += 1
        inputs[row, : len(ids)] = ids
        lengths[row] = len(ids)
    return inputs, lengths, num_cut
