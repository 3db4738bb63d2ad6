"""Initial weights: GPT-2's deviations, and its published sizes."""

import jax
import numpy as np
import pytest

from configs import gpt2
from tests.helpers.rings import others_long
from tests.helpers.tiny_models import tiny_config
from transformer.data.rows.lm_batches import WindowBatch
from transformer.model.single_stack import CausalLM

BLANK = WindowBatch.zeros(1, 1)


def init(config, vocab_size):
    return CausalLM(config, vocab_size).init(jax.random.key(0), BLANK, deterministic=True)["params"]


def test_gpt2_divides_what_is_added_to_the_residual_stream():
    """Catches the division of another matrix, and a √N without the two sub-layers of a layer."""
    config = tiny_config(
        d_model=64, d_ff=128, num_layers=2, initializer="gpt2", positions="learned"
    )
    params = jax.jit(lambda: init(config, 300))()
    layer = params["decoder"]["layer_1"]
    divided = 0.02 / (2 * 2) ** 0.5
    for leaf, expected in (
        (params["tokens"]["table"]["table"], 0.02),
        (params["tokens"]["positions"]["table"], 0.02),
        (layer["self_attention"]["value"]["kernel"], 0.02),
        (layer["self_attention"]["output"]["kernel"], divided),
        (layer["feed_forward"]["inner"]["kernel"], 0.02),
        (layer["feed_forward"]["outer"]["kernel"], divided),
    ):
        assert np.std(leaf) == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("size", "published"),
    others_long(
        [("small", 124_439_808), ("medium", 354_823_168), ("xl", 1_557_611_200)],
        ("small", 124_439_808),
    ),
)
def test_gpt2_has_the_published_number_of_parameters(size, published):
    """Catches a bias, a norm or a table too many or too few in the shipped configuration."""
    config = gpt2.get_config(size).validate()
    shapes = jax.eval_shape(lambda: init(config.model, config.tokenizer.vocab_size))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == published
