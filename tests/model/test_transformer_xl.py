"""Transformer-XL: what a segment sees, what it sends no gradient to, and the cached steps."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_config
from transformer.config import Config
from transformer.model.attention import causal_mask
from transformer.model.costs import stack_flops
from transformer.model.decoder_only import CausalLM
from transformer.model.layers import Stack
from transformer.model.transformer_xl import segment_memory_mask
from transformer.search.decoding import FREE, HypothesisRules, Limits, search_to_end
from transformer.search.sampling import Sampling
from transformer.special_tokens import EOS

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


@pytest.mark.parametrize("positions", ["rotary", "relative"])
def test_generation_computes_what_evaluation_does(positions):
    """Catches a cache without the memory's limits, and columns that are written over too early."""
    length = 11
    model = CausalLM(xl_config(positions=positions), VOCAB_SIZE)
    targets = np.random.default_rng(0).integers(4, VOCAB_SIZE, (2, length)).astype(np.int32)
    inputs = np.concatenate([np.full((2, 1), EOS), targets[:, :-1]], 1).astype(np.int32)
    params = random_params(model.init, inputs, deterministic=True)

    def step_fn(*inputs):
        return model.apply({"params": params}, *inputs, (), method="decode_step")

    @jax.jit
    def search():
        cache = model.apply({"params": params}, 2, 1, length, method="init_cache")
        assert cache[0].value.shape[2] == T + M
        method = Sampling(HypothesisRules(EOS, FREE, "power", 0.0), temperature=0.0)
        return search_to_end(method, step_fn, Limits(np.full(2, length + 1), targets), cache)

    run = jax.jit(partial(model.apply, deterministic=True))
    logits = np.array(run({"params": params}, inputs))
    logits[..., [0, 1, 3]] = -np.inf  # ids that stand for no text are never written
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    gold = np.take_along_axis(log_probs, targets[..., None], -1).sum((1, 2))
    np.testing.assert_allclose(search().log_probs[:, 0], gold, rtol=1e-5)


def test_the_cost_counts_what_is_seen():
    """Catches a utilisation by the products of full attention."""
    config = xl_config()
    plain = stack_flops(tiny_config(num_layers=1), [7, 4], causal=True)
    ours = stack_flops(config, [7, 4], causal=True)
    seen = [segment_memory_mask(4, T, M).reshape(8, -1)[:n].sum() for n in (7, 4)]
    missing = 7 * 8 / 2 + 4 * 5 / 2 - sum(map(int, seen))
    assert plain - ours == 6 * missing * 2 * config.d_model


@pytest.mark.parametrize(
    "task, changes, message",
    [
        ("translation", {}, "is for task=language_model"),
        ("language_model", dict(positions="learned"), "model.positions to be one of none"),
        ("language_model", dict(attention="local"), "model.attention to be one of"),
        ("language_model", dict(segment_length=256), "must be longer than model.segment_length"),
    ],
)
def test_what_has_no_memory_is_refused(task, changes, message):
    """Catches a model that would train without the memory that it was given."""
    Config(task="language_model", model=xl_config()).validate()
    with pytest.raises(ValueError, match=message):
        Config(task=task, model=xl_config(**changes)).validate()
