"""The arithmetic of a model, against the products that it really makes."""

import jax
import jax.extend
import numpy as np
import pytest

from tests.helpers.tiny_models import VOCAB_SIZE, make_batch, sentence, tiny_model
from transformer.model.costs import training_flops
from transformer.parallel.devices import find_chip


def products(jaxpr):
    """Multiply-adds × 2 of all matrix products in a jaxpr, those inside other functions too."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            total += 2 * equation.outvars[0].aval.size * np.prod([shape[i] for i in contracted])
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            total += products(inner)
    return int(total)


@pytest.mark.parametrize(
    "changes", [dict(feed_forward="gated"), dict(num_decoder_layers=3, head_dim=4, value_dim=6)]
)
def test_flops_are_those_of_the_products(changes):
    """Catches a forgotten projection, a factor of 2, source for target, attention across rows."""
    rng = np.random.default_rng(0)
    source, target = 9, 5
    batch = make_batch([[(sentence(rng, source), sentence(rng, target))]], source, target)
    model = tiny_model(**changes)
    variables = jax.eval_shape(
        lambda: model.init({"params": jax.random.PRNGKey(0)}, batch, deterministic=True)
    )
    forward = jax.make_jaxpr(lambda v: model.apply(v, batch, deterministic=True))(variables)
    c = model.config
    heads = c.num_heads * sum(c.widths_of_head)
    causal_half = 2 * c.depth(is_decoder=True) * heads * (target**2 - target * (target + 1) / 2)
    expected = 3 * (products(forward.jaxpr) - causal_half)
    assert training_flops(c, VOCAB_SIZE, [source], [target]) == pytest.approx(expected)
    both = training_flops(c, VOCAB_SIZE, [source] * 2, [target] * 2)
    assert both == pytest.approx(2 * expected)


@pytest.mark.parametrize(
    ("kind", "peak"),
    [
        ("TPU v5 lite", 197),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H200", 989),
        ("Tesla V100-SXM2-32GB", 15.7),
        ("cpu", None),
    ],
)
def test_chips_are_told_apart(kind, peak):
    """Catches a v5e taken for a v5p, and bfloat16 on a V100 at the speed of its float16."""
    assert getattr(find_chip(kind), "peak_tflops", None) == peak
