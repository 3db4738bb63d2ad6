"""The alignment functions against plain formulas, and each of them inside a model."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import make_batch, random_params, sentence, tiny_config, tiny_model
from transformer.config import Config
from transformer.model.attention import ATTENTION_FUNCTIONS, ATTENTION_MODULES
from transformer.model.attention_functions import fused_attention
from transformer.model.layers import Stack
from transformer.model.loss import make_loss_fn
from transformer.model.masks import causal_mask

B, N, H = 2, 3, 4
EXACT = ["scaled_dot_product", "dot_product", "general", "additive", "fused"]
IN_TRANSLATION = [*EXACT, "local"]
RNG = np.random.default_rng(0)
MATRIX, VECTOR = (RNG.normal(size=shape).astype(np.float32) for shape in ((N, H, H), (N, H)))
WEIGHTS = {"general": {"matrix": MATRIX}, "additive": {"vector": VECTOR}}
LOGITS = {  # of one head n: query [T, H], key [S, H] -> [T, S]
    "scaled_dot_product": lambda q, k, n: q @ k.T / np.sqrt(H),
    "dot_product": lambda q, k, n: q @ k.T,
    "general": lambda q, k, n: q @ MATRIX[n] @ k.T,
    "additive": lambda q, k, n: np.tanh(q[:, None] + k) @ VECTOR[n],
    "fused": lambda q, k, n: q @ k.T / np.sqrt(H),
}


def attention(name):
    """The function of that name; one with weights has those of WEIGHTS."""
    if name in ATTENTION_FUNCTIONS:
        return ATTENTION_FUNCTIONS[name]
    return partial(ATTENTION_MODULES[name]().apply, {"params": WEIGHTS[name]})


def arrays(length, source_length, width=H, value_width=H):
    """query [B, T, N, H], key [B, S, N, H], value [B, S, N, value_width], all at random."""
    rng = np.random.default_rng(1)
    shapes = (length, width), (source_length, width), (source_length, value_width)
    return [rng.normal(size=(B, a, N, b)).astype(np.float32) for a, b in shapes]


def by_hand(name, query, key, value, mask):
    """softmax(logits)V, a head of a row at a time."""
    out = np.zeros((*query.shape[:3], value.shape[-1]), np.float32)
    mask = np.broadcast_to(mask, (B, N, query.shape[1], key.shape[1]))
    for b in range(B):
        for n in range(N):
            logits = LOGITS[name](query[b, :, n], key[b, :, n], n)
            exp = np.where(mask[b, n], np.exp(logits - logits.max(-1, keepdims=True)), 0)
            out[b, :, n] = exp / exp.sum(-1, keepdims=True) @ value[b, :, n]
    return out


@pytest.mark.parametrize("mask_shape", [None, (B, 1, 1), (B, 1, "T"), (1, N, "T")], ids=str)
@pytest.mark.parametrize("length", [3, 11])  # the first as in a search step, summed in loops
@pytest.mark.parametrize("name", EXACT)
def test_equals_the_formula(name, length, mask_shape):
    """Catches a scale too many or too few, heads that share weights, and a mask that is ignored."""
    qkv, mask = arrays(length, 7, value_width=5), None
    if mask_shape:
        shape = [length if size == "T" else size for size in mask_shape]
        mask = np.random.default_rng(2).random((*shape, 7)) < 0.5
        mask[..., 0] = True
    ours = attention(name)(*qkv, mask=mask)
    expected = by_hand(name, *qkv, True if mask is None else mask)
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize("name", EXACT)
def test_a_query_that_may_see_nothing_has_finite_gradients(name):
    """Catches 0/0 at padding: one NaN would spread to every weight."""
    mask = np.ones((B, 1, 9, 7), bool)
    mask[0, 0, 1] = False
    qkv = arrays(9, 7)
    gradients = jax.grad(lambda qkv: (attention(name)(*qkv, mask=mask) ** 2).sum())(qkv)
    assert all(np.isfinite(g).all() for g in gradients)
    ours = attention(name)(*qkv, mask=mask)[0, 1]
    np.testing.assert_allclose(ours, qkv[2][0].mean(0), atol=1e-6)


@pytest.mark.parametrize("name", EXACT[:-1])
@pytest.mark.parametrize("length", [3, 11])
def test_dropout_is_applied_to_the_weights(name, length):
    """Catches a dropout that vanishes without a word, and one of logits or of values."""
    query, key, value = arrays(length, 7)
    keep = np.zeros((B, N, length, 7), np.float32)
    keep[..., 0] = 1
    ours = attention(name)(query, key, value, dropout=lambda weights: weights * keep)
    only_first = np.where(np.arange(7) == 0, 1, 0)[None, :, None, None] * value
    np.testing.assert_allclose(ours, by_hand(name, query, key, only_first, True), atol=1e-5)


def test_fused_refuses_dropout():
    """Catches a model that is trained with less dropout than its configuration says."""
    with pytest.raises(ValueError, match="no weights to drop: set model"):
        fused_attention(*arrays(3, 7), dropout=lambda weights: weights)


def test_general_starts_from_equation_1():
    """Catches a start that is another model for each number of heads."""
    qkv = arrays(9, 7)
    ours, _ = ATTENTION_MODULES["general"]().init_with_output(jax.random.key(0), *qkv)
    np.testing.assert_allclose(ours, ATTENTION_FUNCTIONS["scaled_dot_product"](*qkv), atol=1e-5)


class FakeGPU:
    device_kind = "NVIDIA H100"
    compute_capability = "9.0"


def chosen_kernel(monkeypatch, lengths, dtype, masked, width=16, capability="9.0"):
    """The implementation and the mask that `jax.nn` is asked for on a GPU."""
    asked = {}

    def kernel(query, key, value, *, mask, scale, implementation):
        asked.update(implementation=implementation, mask=mask)
        return query

    device = FakeGPU()
    device.compute_capability = capability
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(jax.nn, "dot_product_attention", kernel)
    qkv = (x.astype(dtype) for x in arrays(*lengths, width=width, value_width=width))
    fused_attention(*qkv, mask=np.ones((B, 1, 1, lengths[1]), bool) if masked else None)
    return asked["implementation"], asked["mask"]


def test_fused_asks_for_the_flash_kernel_where_it_can(monkeypatch):
    """Catches jax's default, which is never cuDNN, and arguments that cuDNN would end a run for."""
    chosen = partial(chosen_kernel, monkeypatch)
    assert chosen((8, 6), jnp.bfloat16, False) == ("cudnn", None)
    name, mask = chosen((8, 6), jnp.bfloat16, True)
    assert name == "cudnn" and mask.shape == (B, 1, 8, 6)  # its bias may not have one row for all
    assert chosen((7, 6), jnp.bfloat16, False)[0] == "cudnn"
    assert chosen((7, 6), jnp.bfloat16, True)[0] == "xla"
    assert chosen((8, 6), jnp.float32, False)[0] == "xla"
    assert chosen((8, 6), jnp.bfloat16, False, width=12)[0] == "xla"
    assert chosen((8, 6), jnp.bfloat16, False, width=256)[0] == "xla"
    assert chosen((8, 6), jnp.bfloat16, False, capability="7.5")[0] == "xla"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (dict(attention="fused", attention_dropout_rate=0.1), "fused has no weights to drop"),
        (dict(attention="performer"), "it is for task=images"),
        (dict(attention="cosine"), "one of scaled_dot_product, dot_product, general"),
        (dict(attention="local", attention_block=0), "attention_block must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_compiled(changes, sentence):
    """Catches a run that dies at its first step, minutes after it was started."""
    config = Config()
    for name, value in changes.items():
        setattr(config.model, name, value)
    with pytest.raises(ValueError, match=sentence):
        config.validate()


@pytest.fixture(scope="module")
def pairs():
    """Four sentence pairs, the longest longer than three blocks of two places."""
    rng = np.random.default_rng(0)
    return [(sentence(rng, s), sentence(rng, t)) for s, t in ((8, 4), (1, 1), (5, 9), (2, 7))]


def model_with(name, batch, **changes):
    model = tiny_model(attention=name, attention_block=2, num_layers=1, **changes)
    return model, random_params(model.init, batch, deterministic=True)


@pytest.mark.parametrize("name", IN_TRANSLATION)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_model_trains_with_it(name, dtype, pairs):
    """Catches a setting that reaches no layer, weights that get no gradient, and NaN at padding."""
    batch = make_batch([pairs[:2], pairs[2:], []], 12, 18)
    model, params = model_with(name, batch, dtype=dtype)
    loss_fn = make_loss_fn(model, 0.1)
    run = jax.jit(jax.value_and_grad(lambda p: loss_fn(p, batch, jax.random.PRNGKey(0))[0]))
    loss, gradients = run(params)
    assert np.isfinite(loss)
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.isfinite(gradient).all() and np.any(gradient), path


def test_functions_have_no_weights_of_their_own(pairs):
    """Catches old checkpoints that no longer open, and weights under another name."""
    batch = make_batch([pairs[:1]], 8, 9)
    names = {}
    for name in IN_TRANSLATION:
        leaves = jax.tree_util.tree_leaves_with_path(model_with(name, batch)[1])
        names[name] = {jax.tree_util.keystr(path) for path, _ in leaves}
    old = names["scaled_dot_product"]
    assert all(names[name] == old for name in ("dot_product", "fused", "local"))
    assert not [name for name in old if "alignment" in name]
    block = "['decoder']['layer_0']['encoder_attention']['alignment']"
    for name, leaf in (("general", "matrix"), ("additive", "vector")):
        assert names[name] > old and f"{block}['{leaf}']" in names[name]


@pytest.mark.parametrize("name", IN_TRANSLATION)
def test_nothing_leaks_from_the_future(name):
    """Catches a function that forgets the mask: the gradient would not be exactly zero."""
    length = 9
    stack = Stack(tiny_config(attention=name, attention_block=2))
    x = np.random.default_rng(0).normal(size=(1, length, 16)).astype(np.float32)
    inputs = dict(mask=causal_mask(length), deterministic=True)
    variables = {"params": random_params(stack.init, x, **inputs)}
    jacobian = jax.jit(jax.jacrev(lambda y: stack.apply(variables, y, **inputs)[0]))(x)[:, :, 0]
    acts = np.asarray(jnp.abs(jacobian).max((1, 3)) > 0)
    reach = 2 * 2 if name == "local" else length  # two layers of two places each
    places = np.arange(length)
    back = places[:, None] - places
    np.testing.assert_array_equal(acts, (back >= 0) & (back <= reach))


@pytest.mark.parametrize("name", IN_TRANSLATION)
def test_cached_decoding_equals_the_full_pass(name, pairs):
    """Catches another model at search time than in training; two beams share one sentence."""
    batch = make_batch([[pair] for pair in pairs], 8, 9)
    model, params = model_with(name, batch)
    variables, rows, length, width = {"params": params}, len(pairs), 9, 2
    full = jax.jit(partial(model.apply, deterministic=True))(variables, batch)
    step = jax.jit(partial(model.apply, method="decode_step"))
    lengths = (batch.input_segments != 0).sum(1)
    encoded = model.apply(variables, batch.inputs, lengths, method="encode_for_search")
    cache = model.apply(variables, rows, width, length, method="init_cache")
    own, places = jnp.arange(width)[:, None], jnp.arange(length)
    for position in range(length):
        tokens = jnp.repeat(batch.decoder_inputs[:, position, None], width, axis=1)
        ancestors = jnp.where(places <= position, (own + places) % width, -1)
        ancestors = ancestors.at[:, position].set(jnp.arange(width))
        ancestors = jnp.broadcast_to(ancestors, (rows, width, length))
        logits, cache = step(variables, tokens, cache, position, ancestors, encoded)
        is_real = batch.target_segments[:, position] != 0
        expected = np.repeat(full[is_real, position, None], width, axis=1)
        np.testing.assert_allclose(logits[is_real], expected, atol=1e-5, err_msg=str(position))


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("name", ["general", "additive", "fused"])  # the paper's: test_models
def test_a_compiled_search_step_is_what_its_operations_say(name, rows, pairs):
    """Catches sums that jax 0.10 compiles wrong on a CPU for the beams of one sentence."""
    batch, width, length = make_batch([pairs[:1]] * rows, 8, 9), 4, 12
    model, params = model_with(name, batch)
    rng, variables = np.random.default_rng(0), {"params": params}
    lengths = np.full(rows, 8)
    encoded = model.apply(variables, batch.inputs, lengths, method="encode_for_search")
    cache = model.apply(variables, rows, width, length, method="init_cache")
    cache = jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape), a.dtype), cache)
    ancestors = jnp.asarray(rng.integers(0, width, (rows, width, length)))
    tokens = jnp.asarray(rng.integers(4, 12, (rows, width)))
    step = partial(model.apply, variables, tokens, cache, length - 1, ancestors, encoded)
    compiled, _ = jax.jit(partial(step, method="decode_step"))()
    with jax.disable_jit():
        expected, _ = step(method="decode_step")
    np.testing.assert_allclose(compiled, expected, atol=1e-5)
