"""Changes of weights; that models compute the same is in test_seq2seq.py and test_marian.py."""

import numpy as np
import pytest

from tests.helpers.tiny_models import tiny_config
from transformer.interop.weights.folds import (
    NEVER,
    append_row,
    interleaved_columns,
    permute_columns,
    position_table,
)


def test_halves_become_pairs():
    """Catches the inverse permutation in its stead: with 6 columns they differ."""
    assert interleaved_columns(6).tolist() == [0, 3, 1, 4, 2, 5]


def test_a_row_for_one_more_token():
    """Catches a token that a search may find, and one that changes what the decoder starts with."""
    table, bias = np.ones((3, 2), np.float32), np.ones(3, np.float32)
    assert append_row("softmax/table", table).tolist() == [[1, 1]] * 3 + [[0, 0]]
    assert append_row("softmax/bias", bias).tolist() == [1, 1, 1, NEVER]


def test_a_parameter_that_nobody_knows_is_refused():
    """Catches an array whose axes are guessed."""
    with pytest.raises(ValueError, match="memory/gate is no parameter"):
        permute_columns("memory/gate", np.zeros(4), np.arange(4))


def test_a_learned_table_repeats_its_last_row():
    """Catches a table that ends before the longest text."""
    config = tiny_config(positions="learned", max_positions=4)
    found = position_table(config, {"a": np.eye(4)}, "a", 6)
    np.testing.assert_array_equal(found, np.eye(4)[[0, 1, 2, 3, 3, 3]])
