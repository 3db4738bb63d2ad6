"""Reads the sentence pairs of packed batches back."""


def epoch_of(batches, epoch):
    """The pairs of all batches of an epoch, in order, by their segments: (source, target)."""
    pairs, first = [], epoch * batches.batches_per_epoch
    for step in range(first, first + batches.batches_per_epoch):
        for rows in zip(*batches[step], strict=True):
            source, source_segments, _, target, target_segments, _ = rows
            assert source_segments.max() == target_segments.max()
            for n in range(1, source_segments.max() + 1):
                pair = source[source_segments == n], target[target_segments == n]
                pairs.append(tuple(side.tolist() for side in pair))
    return pairs
