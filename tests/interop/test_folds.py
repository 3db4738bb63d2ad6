"""Changes of weights that undo a difference between systems: the model computes the same."""

import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_config
from transformer.interop.weights.folds import (
    NEVER,
    append_row,
    interleaved_columns,
    permute_columns,
    position_table,
)
from transformer.model.encoder_decoder import Transformer

IDS = np.array([[5, 6, 7, 2], [8, 9, 2, 0]])
OPTIONS = dict(positions="learned", projection_bias=True, output_bias=True, embedding_norm=True)


@pytest.mark.parametrize("options", [{"norm": "pre"}, {"embedding_sharing": "none"}])
def test_permuted_columns_change_nothing(options):
    """Catches a kernel, bias, norm or table whose d_model axis is forgotten, or another's taken."""
    model = Transformer(tiny_config(num_layers=1, **OPTIONS, **options), VOCAB_SIZE, VOCAB_SIZE)
    params = random_params(model.init, IDS, IDS, deterministic=True)
    flat = {name: np.asarray(array) for name, array in flatten_dict(params, sep="/").items()}
    columns = np.random.default_rng(0).permutation(model.config.d_model)
    moved = {name: permute_columns(name, array, columns) for name, array in flat.items()}
    expected, found = (
        model.apply({"params": each}, IDS, IDS, deterministic=True)
        for each in (params, unflatten_dict(moved, sep="/"))
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert any((moved[name] != flat[name]).any() for name in flat)


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
