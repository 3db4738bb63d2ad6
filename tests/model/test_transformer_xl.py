"""Transformer-XL: what a segment sees, what it sends no gradient to, and the cached steps."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_config
from transformer.model.attention import causal_mask
from transformer.model.costs import stack_flops
from transformer.model.layers import Stack
from transformer.model.single_stack import CausalLM
from transformer.model.transformer_xl import segment_memory_mask

T, M, L = 2, 3, 6
SEEN = ["x.....", "xx....", "xxx...", "xxxx..", ".xxxx.", ".xxxxx"]  # as the module draws it


def xl_config(**changes):
    options = dict(block="transformer_xl", positions="rotary", segment_length=T, memory_length=M)
    return tiny_config(**(options | dict(num_layers=1) | changes))


def test_a_segment_sees_its_memory_and_sends_it_no_gradient():
    """Catches a memory one position off, a leak from the future, and a gradient into the memory."""
    stack = Stack(xl_config(), cross_attention=False)
    x = np.random.default_rng(0).normal(size=(1, L, 16)).astype(np.float32)
    params = random_params(partial(stack.init, mask=None, deterministic=True), x)
    run = jax.jit(lambda x: stack.apply({"params": params}, x, mask=None, deterministic=True)[0])
    others = np.repeat(x, L, axis=0)
    others[np.arange(L), np.arange(L)] += 1  # row j differs at j
    is_seen = np.array([abs(run(row[None]) - run(x)).max(-1) > 0 for row in others]).T
    assert ["".join(".x"[seen] for seen in row) for row in is_seen.tolist()] == SEEN
    slopes = jax.jacobian(lambda x: (run(x) ** 2).sum(-1))(x)[:, 0]  # [T, L, D]
    segment = np.arange(L) // T
    expected = (segment[:, None] == segment) & causal_mask(L)[0, 0]
    np.testing.assert_array_equal(np.abs(slopes).max(-1) > 0, expected)


@pytest.mark.long
def test_a_memory_of_everything_is_full_attention():
    """Catches distances or masks that differ between segments, and rows of no whole segments."""
    ids = np.random.default_rng(0).integers(4, VOCAB_SIZE, (2, 7))
    xl = CausalLM(xl_config(positions="t5", evaluation_memory=20, num_layers=2), VOCAB_SIZE)
    full = CausalLM(tiny_config(positions="t5"), VOCAB_SIZE)
    params = random_params(full.init, ids, deterministic=True)
    found, expected = (
        jax.jit(partial(model.apply, deterministic=True))({"params": params}, ids)
        for model in (xl, full)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)
    trained = xl.apply({"params": params}, ids, deterministic=False)  # with the memory of training
    change = abs(trained - expected).max((0, 2))
    assert (change[:4] < 1e-5).all() and (change[4:] > 1e-4).all()


def test_the_cost_counts_what_is_seen():
    """Catches a utilisation by the products of full attention."""
    config = xl_config()
    plain = stack_flops(tiny_config(num_layers=1), [7, 4], causal=True)
    ours = stack_flops(config, [7, 4], causal=True)
    seen = [segment_memory_mask(4, T, M).reshape(8, -1)[:n].sum() for n in (7, 4)]
    missing = 7 * 8 / 2 + 4 * 5 / 2 - sum(map(int, seen))
    assert plain - ours == 6 * missing * 2 * config.d_model
