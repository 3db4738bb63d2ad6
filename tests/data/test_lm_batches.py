"""lm_batches.py: windows of one long text; the input of a target is the id before it."""

import numpy as np
import pytest

from transformer.data.rows.lm_batches import Windows

START = -1


def windows_of(num_ids, *, rows=4, seed=None):
    """Of ids that tell their position: 0, 1, 2 and so on."""
    return Windows(np.arange(num_ids), start=START, length=10, rows_per_batch=rows, seed=seed)


@pytest.mark.parametrize("num_ids", [1, 39, 40, 41, 123])
def test_every_window_has_every_id_once_and_in_order(num_ids):
    """Catches a perplexity over fewer ids than the text has, or over some of them twice, a first id
    without an input, an id 0 without weight, and padding that is not 0."""
    windows = windows_of(num_ids)
    batches = [windows[step] for step in range(windows.batches_per_epoch)]
    assert len(batches) == -(-num_ids // 40)
    targets = np.concatenate([batch.targets[batch.weights == 1] for batch in batches])
    inputs = np.concatenate([batch.inputs[batch.weights == 1] for batch in batches])
    assert np.array_equal(targets, np.arange(num_ids)) and np.array_equal(inputs, targets - 1)
    assert not any(batch.targets[batch.weights == 0].any() for batch in batches)


def test_random_windows_reach_both_ends_and_show_the_id_before_each_target():
    """Catches a first or last id that is never a target, a window beyond the end or with a gap, a
    model that sees what it has to guess, and a text that is shorter than a window."""
    windows = windows_of(13, rows=50, seed=0)
    for batch in (windows[step] for step in range(5)):
        assert {*batch.targets[:, 0].tolist()} == {0, 1, 2, 3} and (batch.weights == 1).all()
        assert (np.diff(batch.targets) == 1).all()
        assert np.array_equal(batch.inputs, batch.targets - 1)
    only = windows_of(10, seed=0)
    assert (only[0].inputs[:, 0] == START).all() and only.batches_per_epoch == 1
    assert windows_of(1000, seed=0).batches_per_epoch == 25
    message = r"^The text has 9 pieces, .*data\.row_length \(10\); lower it\.$"
    with pytest.raises(ValueError, match=message):
        windows_of(9, seed=0)
