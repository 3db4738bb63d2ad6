"""Groups sentences into a small set of static shapes, for search and for scoring.

A sentence's bucket depends on its own length only. If it depended on the sentences beside it, how
far it is padded, and with the rounding of longer sums its translation, would depend on them too.
Training packs sentences instead (`packing`).
"""

from collections.abc import Iterator

import numpy as np

from transformer.data.rows.ragged import Ragged

SHORTEST_BUCKET = 16  # source lengths are rounded up to 16, 32, 64, …
RETRY_BUCKET = 32  # a sentence that is searched a second time is padded to at least this length
SMALL_BATCHES = (1, 8)  # besides the full one: a single sentence need not pay for 64
SENTENCES_PER_SLOT = 2  # above two sentences per slot, the full batch is faster than the batch of 8
FULL_UP_TO = 64  # tokens; batches of longer sentences have fewer rows, to need no more memory


def bucket_lengths(largest: int) -> list[int]:
    """Returns the lengths that source sentences are padded to.

    >>> bucket_lengths(100), bucket_lengths(12)
    ([16, 32, 64, 100], [12])
    """
    lengths = [min(SHORTEST_BUCKET, largest)]
    while lengths[-1] < largest:
        lengths.append(min(2 * lengths[-1], largest))
    return lengths


def batch_sizes(batch_size: int, bucket: int) -> list[int]:
    """Returns the numbers of rows, or of slots, for sentences of a bucket, in ascending order.

    >>> batch_sizes(64, 32), batch_sizes(64, 256)
    ([1, 8, 64], [1, 8, 16])
    """
    full = max(1, batch_size * FULL_UP_TO // max(bucket, FULL_UP_TO))
    return sorted({min(count, full) for count in (*SMALL_BATCHES, full)})


def choose_slots(num_sentences: int, batch_size: int, bucket: int) -> int:
    """Returns in how many slots to search so many sentences of a bucket: enough, but not too many.

    >>> [choose_slots(count, 64, 32) for count in (1, 2, 16, 17, 1000)]
    [1, 8, 8, 64, 64]
    """
    counts = batch_sizes(batch_size, bucket)
    most = (1, SENTENCES_PER_SLOT * SMALL_BATCHES[1])
    return next((n for n, m in zip(counts, most, strict=False) if num_sentences <= m), counts[-1])


def buckets_of(lengths: np.ndarray, largest: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yields (source length, indices of its sentences), long sentences first.

    lengths: of the sentences. Those longer than `largest` go into it.

    >>> lengths = np.array([3, 40, 9, 20, 12])
    >>> [(bucket, indices.tolist()) for bucket, indices in buckets_of(lengths, 64)]
    [(64, [1]), (32, [3]), (16, [4, 2, 0])]
    """
    sizes = np.array(bucket_lengths(largest))
    bucket_of = sizes[np.searchsorted(sizes, np.minimum(lengths, largest))]
    for bucket in sorted(set(bucket_of.tolist()), reverse=True):
        indices = np.flatnonzero(bucket_of == bucket)
        yield bucket, indices[np.argsort(-lengths[indices], kind="stable")]


def deal(indices: np.ndarray, rows: int, num_replicas: int) -> np.ndarray:
    """Returns indices [num_replicas, rows], dealt out in turn; -1 is a row without a sentence.

    >>> deal(np.array([5, 6, 7]), 2, 2).tolist()
    [[5, 7], [6, -1]]
    """
    dealt = np.full(rows * num_replicas, -1)
    dealt[: len(indices)] = indices
    return dealt.reshape(rows, num_replicas).T


def plan_batches(
    lengths: np.ndarray, largest_bucket: int, batch_size: int, num_replicas: int = 1
) -> Iterator[tuple[np.ndarray, int]]:
    """Yields (indices [num_replicas, rows], source length) of each batch, as of `buckets_of`.

    An index of -1 is a row without a sentence. Batches of at most 2 rows may have 1 or 2; a lone
    sentence takes the smallest that holds it:

    >>> lengths = np.array([3, 40, 9, 20, 12])
    >>> [(bucket, batch.tolist()) for batch, bucket in plan_batches(lengths, 64, batch_size=2)]
    [(64, [[1]]), (32, [[3]]), (16, [[4, 2]]), (16, [[0]])]
    """
    for bucket, waiting in buckets_of(lengths, largest_bucket):
        rows = batch_sizes(batch_size, bucket)
        while len(waiting):
            size = next((n for n in rows if len(waiting) <= n * num_replicas), rows[-1])
            yield deal(waiting[: size * num_replicas], size, num_replicas), bucket
            waiting = waiting[size * num_replicas :]


def fill_inputs(source: Ragged, indices: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (ids [rows, length], lengths [rows]) with one sentence per row.

    indices [rows]: sentences of `source`; a row without a sentence (index -1) has length 0. A
    sentence longer than `length` is cut and still ends with EOS.
    """
    inputs = np.zeros((len(indices), length), np.int32)
    for row in np.flatnonzero(indices >= 0):
        ids = source[indices[row]]
        inputs[row, : len(ids)] = ids[:length]
        if len(ids) > length:
            inputs[row, -1] = ids[-1]
    lengths = np.where(indices >= 0, source.lengths[indices], 0).astype(np.int32)
    return inputs, np.minimum(lengths, length)
