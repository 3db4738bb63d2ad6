"""lm_batches.py: windows of one long text; the input of a target is the id before it."""

import numpy as np
import pytest

from transformer.data.rows.lm_batches import Windows
from transformer.special_tokens import NUM_SPECIAL

START = 2


def windows_of(num_ids=100, *, length=10, rows=4, seed=None):
    """Of ids that tell their position: the number i is followed by i + 1."""
    ids = np.arange(num_ids, dtype=np.int32) + NUM_SPECIAL
    return Windows(ids, start=START, length=length, rows_per_batch=rows, seed=seed)


def test_inputs_are_the_ids_before_the_targets():
    """Catches a model that is shown what it has to guess, and rows that skip an id."""
    batch = windows_of(seed=0)[0]
    assert batch.inputs.shape == batch.targets.shape == (4, 10)
    assert batch.inputs.dtype == batch.targets.dtype == np.int32
    before = np.where(batch.targets == NUM_SPECIAL, START, batch.targets - 1)
    assert np.array_equal(batch.inputs, before)
    assert (np.diff(batch.targets) == 1).all() and (batch.weights == 1).all()


def test_windows_as_in_their_example():
    """Catches a first id without an input, windows that leave a gap, and an id 0 without weight."""
    ids = np.array([7, 0, 9, 5, 6])
    windows = Windows(ids, start=START, length=3, rows_per_batch=3)
    assert windows.batches_per_epoch == 1
    assert windows[0].inputs.tolist() == [[START, 7, 0], [9, 5, 6], [0] * 3]
    assert windows[0].targets.tolist() == [[7, 0, 9], [5, 6, 0], [0] * 3]
    assert windows[0].weights.tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("num_ids", [1, 9, 10, 39, 40, 41, 123])
def test_every_window_has_every_id_once_and_in_order(num_ids):
    """Catches a perplexity over fewer ids than the text has, or over some of them twice."""
    windows = windows_of(num_ids)
    batches = [windows[step] for step in range(windows.batches_per_epoch)]
    assert len(batches) == -(-num_ids // 40)
    targets = np.concatenate([batch.targets[batch.weights == 1] for batch in batches])
    assert np.array_equal(targets, np.arange(num_ids) + NUM_SPECIAL)


def test_random_windows_reach_both_ends():
    """Catches a first or last id that is never a target, a window beyond the end, and a text that
    is shorter than a window."""
    windows = windows_of(13, rows=50, seed=0)
    starts = {int(start) for step in range(5) for start in windows[step].targets[:, 0]}
    assert starts == {NUM_SPECIAL + i for i in range(4)}
    only = windows_of(10, seed=0)
    assert (only[0].inputs[:, 0] == START).all() and only.batches_per_epoch == 1
    assert windows_of(1000, seed=0).batches_per_epoch == 25
    message = r"^The text has 9 pieces, .*data\.row_length \(10\); lower it\.$"
    with pytest.raises(ValueError, match=message):
        windows_of(9, seed=0)
