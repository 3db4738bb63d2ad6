"""Changes of weights that undo a difference between systems: the model computes the same."""

from functools import partial

import numpy as np
import pytest
from flax.traverse_util import flatten_dict, unflatten_dict

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_config
from transformer.interop.weights.folds import (
    NEVER,
    append_row,
    interleaved_columns,
    model_axes,
    permute_model_axis,
    position_table,
)
from transformer.model.encoder_decoder import Transformer
from transformer.model.single_stack import MaskedLM, TextClassifier

IDS = np.array([[5, 6, 7, 2], [8, 9, 2, 0]])
OPTIONS = dict(positions="learned", projection_bias=True, output_bias=True, embedding_norm=True)


def make_runs():
    """(model, its inputs) of every kind of part that has a name of its own."""
    config = tiny_config(
        num_layers=1, norm="pre", prediction_head=True, pooling="pooler", **OPTIONS
    )
    sharing = tiny_config(num_layers=1, embedding_sharing="none", **OPTIONS)
    yield Transformer(sharing, VOCAB_SIZE, VOCAB_SIZE), (IDS, IDS)
    yield MaskedLM(config, VOCAB_SIZE), (IDS,)
    yield TextClassifier(config, VOCAB_SIZE, num_classes=3), (IDS,)


@pytest.mark.parametrize("model, inputs", list(make_runs()), ids=lambda x: type(x).__name__)
def test_permuted_columns_change_nothing(model, inputs):
    """Catches a kernel, bias, norm or table whose d_model axis is forgotten, or another's taken."""
    params = random_params(model.init, *inputs, deterministic=True)
    flat = {name: np.asarray(array) for name, array in flatten_dict(params, sep="/").items()}
    columns = np.random.default_rng(0).permutation(model.config.d_model)
    moved = permute_model_axis(flat, columns)
    run = partial(model.apply, deterministic=True)
    expected = run({"params": params}, *inputs)
    found = run({"params": unflatten_dict(moved, sep="/")}, *inputs)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    back = permute_model_axis(moved, np.argsort(columns))
    assert all((back[name] == flat[name]).all() for name in flat)
    assert any((moved[name] != flat[name]).any() for name in flat)


@pytest.mark.parametrize(
    "owner", ["shared_embedding", "target_embedding", "softmax", "tokens/table"]
)
def test_the_bias_of_the_scores_has_no_model_axis(owner):
    """Catches a bias [V] that is cut to d_model, whichever table the softmax shares."""
    assert model_axes(f"{owner}/bias") == ()


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
        permute_model_axis({"memory/gate": np.zeros(4)}, np.arange(4))


def test_a_learned_table_repeats_its_last_row():
    """Catches a table that ends before the longest text, and one of another side."""
    config = tiny_config(positions="learned", max_positions=4)
    tables = {
        f"{side}_positions/table": np.eye(4) * i for i, side in enumerate(("source", "target"))
    }
    found = position_table(config, tables, "target", 6)
    np.testing.assert_array_equal(found, np.eye(4)[[0, 1, 2, 3, 3, 3]])
