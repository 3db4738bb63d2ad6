"""The rows of an ablation are what their file says, before anything is trained."""

import pytest

from transformer.config import Config
from transformer.evaluation.ablation_plan import plan_rows, with_num_steps

ROWS = {
    "base": {},
    "wide": {"model.d_ff": lambda base: 2 * base.model.d_ff},
    "same": {"model.d_ff": lambda base: base.model.d_ff},
    "deep": {"model.num_layers": 8, "model.dropout_rate": 0.2},
}


def test_rows_are_planned_in_the_order_that_is_asked_for():
    """Catches rows that build on each other, a row trained twice, and one left out in silence."""
    said = []
    rows = plan_rows(Config(), ROWS, published={"deep": {"BLEU": 1.5}}, say=said.append)
    assert [(row.name, row.summary) for row in rows] == [
        ("base", "the base"),
        ("wide", "d_ff 2048 → 4096"),
        ("deep", "num_layers 6 → 8, dropout_rate 0.1 → 0.2"),
    ]
    assert said == ["row same is left out: with this base it is the same as base"]
    assert rows[2].published == {"BLEU": 1.5} and rows[2].config.model.d_ff == 2048
    assert [row.name for row in plan_rows(Config(), ROWS, ["deep", "base"])] == ["deep", "base"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model.dff": 1}, r"row x: there is no model\.dff; did you mean model\.d_ff\?"),
        ({"model.num_heads": 3}, r"row x: model\.d_model \(512\) must be a multiple"),
        ({"model.d_ff": "wide"}, r"row x: model\.d_ff must be of type int, not 'wide'"),
    ],
)
def test_a_row_that_cannot_be_trained_is_named(changes, said):
    """Catches a row that fails after hours, when its turn comes."""
    with pytest.raises(ValueError, match=said):
        plan_rows(Config(), {"base": {}, "x": changes})
    with pytest.raises(ValueError, match="there is no row 'z'; the rows are base, x"):
        plan_rows(Config(), {"base": {}, "x": changes}, ["base", "z"])


def test_the_schedule_goes_along_with_the_number_of_steps():
    """Catches a short budget that ends within the warm-up, and a decay that begins out of none."""
    base = Config().with_values({"training.num_train_steps": 1000, "optimizer.warmup_steps": 100})
    base = base.with_values({"training.eval_every": 250, "training.checkpoint_every": 2})
    values = with_num_steps(base, 100).validate().values()
    assert values["training.num_train_steps"] == 100 and values["optimizer.warmup_steps"] == 10
    assert values["training.eval_every"] == 25 and values["training.checkpoint_every"] == 1
    assert values["optimizer.decay_steps"] == 0
