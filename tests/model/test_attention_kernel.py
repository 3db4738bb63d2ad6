"""The attention kernel for TPUs, interpreted on a CPU, against equation (1)."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from jax.sharding import Mesh

from transformer.config import Config
from transformer.model.attention_functions import dot_product_attention
from transformer.model.attention_kernel import (
    attend_in_kernel,
    gradients_in_kernel,
    kernel_takes,
)
from transformer.parallel.mapping import ACTIVATION_AXES, AXES, make_parallel
from transformer.training.startup_summary import make_step_without_data
from transformer.training.steps import make_train_step


@jax.custom_vjp
def interpreted(query, key, value, mask):
    return attend_in_kernel(query, key, value, mask, interpret=True)


interpreted.defvjp(
    lambda *arrays: (interpreted(*arrays), arrays),
    lambda arrays, gradient: (*gradients_in_kernel(*arrays, gradient, interpret=True), None),
)


def arrays(rows, num_queries, num_keys, num_heads, head_dim, mask_rows=None, dtype=np.float32):
    """(query, key, value, gradient of the result) and a mask whose query 3 may see nothing."""
    rng = np.random.default_rng(0)
    lengths = num_queries, num_keys, num_keys, num_queries
    shapes = [(rows, length, num_heads, head_dim) for length in lengths]
    mask = rng.random((mask_rows or rows, 1, num_queries, num_keys)) < 0.3
    mask[0, 0, 3] = False
    return [jnp.asarray(rng.normal(size=shape), dtype) for shape in shapes], mask


def results(attend, qkvg, mask):
    """The attended values and the gradients of queries, keys and values."""

    def both(query, key, value, gradient):
        attended, vjp = jax.vjp(partial(attend, mask=mask), query, key, value)
        return attended, *vjp(gradient)

    return jax.jit(both)(*qkvg)


@pytest.mark.parametrize(
    "sizes, mask_rows",
    [
        ((2, 128, 256, 2, 64), None),  # attention to a source of another length
        ((1, 256, 128, 8, 32), None),  # heads of a quarter block
        ((3, 384, 128, 2, 128), 1),  # three blocks of queries, one mask for all rows
    ],
)
def test_equals_equation_1_with_its_gradients(sizes, mask_rows):
    """Catches heads, blocks or masks that are mixed up, and sums that do not start from zero."""
    qkvg, mask = arrays(*sizes, mask_rows)
    ours, expected = (results(a, qkvg, mask) for a in (interpreted, dot_product_attention))
    jax.tree.map(partial(np.testing.assert_allclose, atol=3e-5), ours, expected)


def test_bfloat16_is_as_near_as_without_the_kernel():
    """Catches a softmax or sums over the queries that are not in float32."""
    qkvg, mask = arrays(1, 256, 128, 2, 64)
    exact = results(dot_product_attention, qkvg, mask)
    rounded = [x.astype(jnp.bfloat16) for x in qkvg]
    ours, without = (results(a, rounded, mask) for a in (interpreted, dot_product_attention))
    for x, y, e in zip(ours, without, exact, strict=True):
        assert abs(x - e).mean() < 1.2 * abs(y - e).mean()


def test_is_divided_over_a_mesh():
    """Catches a kernel that gathers rows or heads which lie on other devices."""
    qkvg, mask = arrays(4, 128, 128, 2, 64)
    mesh = Mesh(np.array(jax.devices()[:4]).reshape(1, 2, 2), AXES)
    alone = results(interpreted, qkvg, mask)
    with jax.set_mesh(mesh), nn.logical_axis_rules(ACTIVATION_AXES):
        divided = results(interpreted, qkvg, mask)
    assert divided[0].sharding.shard_shape(divided[0].shape) == (2, 128, 1, 64)
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), divided, alone)


def test_takes_only_what_it_can():
    """Catches a shape that the compiler for TPUs refuses, or that the blocks would cut."""
    for num_queries, num_keys, heads, heads_of_mask, taken in (
        (256, 128, (8, 64), 1, True),
        (96, 128, (8, 64), 1, False),  # not a multiple of 128
        (128, 128, (3, 32), 1, False),  # 96 lanes
        (128, 128, (2, 96), 1, False),  # 96 of 192 lanes
        (128, 4096, (8, 64), 1, False),  # too many keys
        (128, 128, (8, 64), 8, False),  # a mask for every head
    ):
        query, key = (jnp.zeros((2, length, *heads)) for length in (num_queries, num_keys))
        mask = jnp.zeros((2, heads_of_mask, num_queries, num_keys), bool)
        assert kernel_takes(query, key, key, mask) == taken


def test_a_training_step_for_tpus_never_stores_the_weights():
    """Catches a default that goes around the kernel, and weights kept for the gradient."""
    config = Config()
    model = {"d_model": 256, "d_ff": 64, "num_heads": 4, "num_layers": 1, "dtype": "bfloat16"}
    changes = {f"model.{name}": value for name, value in model.items()}
    changes |= {"data.row_length": 128, "training.batch_tokens": 384, "tokenizer.vocab_size": 64}
    config = config.with_values(changes).validate()
    step = make_step_without_data(config, make_parallel(config, jax.devices()[:1]))
    shapes = [
        jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), tree)
        for tree in (step.abstract_state, step.example_batch)
    ]
    traced = jax.jit(make_train_step(step.loss_fn, step.optimizer, seed=0)).trace(*shapes)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert text.count("tpu_custom_call") == 6  # three attentions, forward and backward
    assert "3x4x128x128x" not in text
