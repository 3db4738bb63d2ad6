"""lm_batches.py: windows of one long text; the input of a target is the id before it."""

import numpy as np
import pytest

from transformer.data.rows.lm_batches import Windows

START = 2


def windows_of(num_ids, *, rows=4, seed=None):
    """Of ids that tell their position: 4, 5, 6 and so on."""
    ids = np.arange(num_ids, dtype=np.int32) + 4
    return Windows(ids, start=START, length=10, rows_per_batch=rows, seed=seed)


def test_windows_as_in_their_example():
    """Catches a first id without an input, windows that leave a gap, and an id 0 without weight."""
    ids = np.array([7, 0, 9, 5, 6])
    windows = Windows(ids, start=START, length=3, rows_per_batch=3)
    assert windows.batches_per_epoch == 1
    assert windows[0].inputs.tolist() == [[START, 7, 0], [9, 5, 6], [0] * 3]
    assert windows[0].targets.tolist() == [[7, 0, 9], [5, 6, 0], [0] * 3]
    assert windows[0].weights.tolist() == [[1, 1, 1], [1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("num_ids", [1, 39, 40, 41, 123])
def test_every_window_has_every_id_once_and_in_order(num_ids):
    """Catches a perplexity over fewer ids than the text has, or over some of them twice."""
    windows = windows_of(num_ids)
    batches = [windows[step] for step in range(windows.batches_per_epoch)]
    assert len(batches) == -(-num_ids // 40)
    targets = np.concatenate([batch.targets[batch.weights == 1] for batch in batches])
    assert np.array_equal(targets, np.arange(num_ids) + 4)


def test_random_windows_reach_both_ends_and_show_the_id_before_each_target():
    """Catches a first or last id that is never a target, a window beyond the end or with a gap, a
    model that sees what it has to guess, and a text that is shorter than a window."""
    windows = windows_of(13, rows=50, seed=0)
    for batch in (windows[step] for step in range(5)):
        assert {*batch.targets[:, 0].tolist()} == {4, 5, 6, 7} and (batch.weights == 1).all()
        assert (np.diff(batch.targets) == 1).all()
        before = np.where(batch.targets == 4, START, batch.targets - 1)
        assert np.array_equal(batch.inputs, before)
    only = windows_of(10, seed=0)
    assert (only[0].inputs[:, 0] == START).all() and only.batches_per_epoch == 1
    assert windows_of(1000, seed=0).batches_per_epoch == 25
    message = r"^The text has 9 pieces, .*data\.row_length \(10\); lower it\.$"
    with pytest.raises(ValueError, match=message):
        windows_of(9, seed=0)
