"""Reads the sentence pairs of packed batches back."""


def read_pairs(batch):
    """The pairs of a batch, by their segments: [(source ids, target ids)]."""
    pairs = []
    for row in range(len(batch.inputs)):
        assert batch.target_segments[row].max() == batch.input_segments[row].max()
        for segment in range(1, batch.input_segments[row].max() + 1):
            source = batch.inputs[row][batch.input_segments[row] == segment]
            target = batch.targets[row][batch.target_segments[row] == segment]
            pairs.append((source.tolist(), target.tolist()))
    return pairs


def epoch_of(batches, epoch):
    """The pairs of all batches of an epoch, in order."""
    n = batches.batches_per_epoch
    return [pair for step in range(epoch * n, epoch * n + n) for pair in read_pairs(batches[step])]
