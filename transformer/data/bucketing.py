"""Groups sentences into batches with a small set of static shapes, for search.

A sentence's bucket depends on its own length only. If it depended on the sentences beside it, their
lengths would decide how far it is padded, and the rounding of longer sums could change its
translation: the same line would be translated differently in another file. Training packs sentences
instead (`packing`).
"""

from collections.abc import Iterator

import numpy as np

from transformer.data.ragged import Ragged
from transformer.special_tokens import EOS

SHORTEST_BUCKET = 16  # source lengths are rounded up to 16, 32, 64, …
SMALL_BATCHES = (1, 8, 24)  # besides the larger ones: a single sentence need not pay for 64
FULL_UP_TO = 64  # tokens; batches of longer sentences have fewer rows, to need no more memory


def bucket_lengths(largest: int) -> list[int]:
    """Returns the lengths that source sentences are padded to.

    >>> bucket_lengths(100)
    [16, 32, 64, 100]
    """
    lengths = [SHORTEST_BUCKET]
    while lengths[-1] < largest:
        lengths.append(min(2 * lengths[-1], largest))
    return lengths


def batch_sizes(batch_size: int, bucket: int) -> list[int]:
    """Returns the numbers of rows that a batch of a bucket may have, in ascending order.

    >>> batch_sizes(64, 32)
    [1, 8, 24, 48, 64]
    >>> batch_sizes(64, 256)
    [1, 8, 16]
    """
    full = max(1, batch_size * FULL_UP_TO // max(bucket, FULL_UP_TO))
    three_quarters = full * 3 // 4 // 8 * 8
    return sorted({n for n in (*SMALL_BATCHES, three_quarters) if 0 < n < full} | {full})


def plan_batches(
    lengths: np.ndarray, largest_bucket: int, batch_size: int, num_replicas: int = 1
) -> Iterator[tuple[np.ndarray, int]]:
    """Yields (indices [num_replicas, rows], source length) of each batch, long sentences first.

    lengths: number of tokens of each sentence. Sentences longer than `largest_bucket` go into it
    and have to be cut. An index of -1 is a row without a sentence.

    Batches of at most 2 rows may have 1 or 2; a lone sentence takes the smallest that holds it:

    >>> lengths = np.array([3, 40, 9, 20, 12])
    >>> [(bucket, batch.tolist()) for batch, bucket in plan_batches(lengths, 64, batch_size=2)]
    [(64, [[1]]), (32, [[3]]), (16, [[4, 2]]), (16, [[0]])]
    """
    sizes = np.array(bucket_lengths(largest_bucket))
    bucket_of = sizes[np.searchsorted(sizes, np.minimum(lengths, largest_bucket))]
    for bucket in sorted(set(bucket_of.tolist()), reverse=True):
        waiting = np.flatnonzero(bucket_of == bucket)
        waiting = waiting[np.argsort(-lengths[waiting], kind="stable")]
        rows = batch_sizes(batch_size, bucket)
        while len(waiting):
            size = next((n for n in rows if len(waiting) <= n * num_replicas), rows[-1])
            batch = np.full(size * num_replicas, -1)
            batch[: len(waiting)] = waiting[: len(batch)]
            yield batch.reshape(size, num_replicas).T, bucket
            waiting = waiting[len(batch) :]


def fill_inputs(
    source: Ragged, indices: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Returns (ids [rows, length], lengths [rows], number of sentences cut), one sentence per row.

    indices [rows]: sentences of `source`; a row without a sentence (index -1) has length 0. A
    sentence longer than `length` is cut and still ends with EOS.
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
