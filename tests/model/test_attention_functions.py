"""The attention functions against plain formulas in numpy, and each of them inside a Stack."""

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.attention import random_qkv, weigh
from transformer.model.attention import ATTENTION_FUNCTIONS
from transformer.model.attention_functions import fused_attention

B, N, H = 2, 3, 4
T, S = 9, 7
RNG = np.random.default_rng(0)
MATRIX, VECTOR = (RNG.normal(size=shape).astype(np.float32) for shape in ((N, H, H), (N, H)))
SHARPNESS, OF_POSITIONS = np.exp(VECTOR[:, 0]), RNG.normal(size=(N, H, S + 2)).astype(np.float32)
WEIGHTS = {
    "general": {"matrix": MATRIX},
    "additive": {"vector": VECTOR},
    "content": {"log_sharpness": VECTOR[:, 0]},
    "location": {"matrix": OF_POSITIONS},
}
OPTIONS = {"location": {"num_positions": S + 2}}
LOGITS = {  # of one head n: query [T, H], key [S, H] -> [T, S]
    "scaled_dot_product": lambda q, k, n: q @ k.T / np.sqrt(H),
    "dot_product": lambda q, k, n: q @ k.T,
    "general": lambda q, k, n: q @ MATRIX[n] @ k.T,
    "additive": lambda q, k, n: np.tanh(q[:, None] + k) @ VECTOR[n],
    "content": lambda q, k, n: SHARPNESS[n] * unit(q) @ unit(k).T,
    "location": lambda q, k, n: q @ OF_POSITIONS[n],  # [T, P]: of positions, see `by_hand`
}
LOGITS["fused"] = LOGITS["scaled_dot_product"]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def attention(name):
    """The function of that name; a module has the weights of WEIGHTS."""
    if name in WEIGHTS:
        return partial(
            ATTENTION_FUNCTIONS[name](**OPTIONS.get(name, {})).apply, {"params": WEIGHTS[name]}
        )
    return ATTENTION_FUNCTIONS[name]


def by_hand(name, query, key, value, mask=True):
    """softmax(logits)V; "location" counts the position of a key among those that its query sees."""
    mask = np.broadcast_to(mask, (B, N, query.shape[1], key.shape[1]))
    heads = [[(query[b, :, n], key[b, :, n], n) for n in range(N)] for b in range(B)]
    logits = np.array([[LOGITS[name](*head) for head in row] for row in heads])
    if name == "location":
        logits = np.take_along_axis(logits, np.maximum(mask.cumsum(-1) - 1, 0), axis=-1)
    return weigh(logits, value, mask)


def random_mask(*shape):
    mask = np.random.default_rng(2).random(shape) < 0.5
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("name", LOGITS)
def test_equals_the_formula(name):
    """Catches a wrong scale, shared heads, an ignored mask, lost dropout, a softmax in bfloat16."""
    qkv, keep = random_qkv(T, S, value_width=5), np.arange(S) == 0
    masks = [None, random_mask(B, 1, 1, S), random_mask(B, 1, T, S), random_mask(1, N, T, S)]
    function = attention(name)

    @jax.jit
    def run(masks):
        rough = function(*(jnp.asarray(x, jnp.bfloat16) for x in qkv), mask=masks[2])
        dropout = {} if name == "fused" else dict(dropout=lambda weights: weights * keep)
        return [function(*qkv, mask=mask) for mask in masks], rough, function(*qkv, **dropout)

    found, rough, dropped = run(masks)
    expected = [by_hand(name, *qkv, mask is None or mask) for mask in masks]
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), found, expected)
    assert rough.dtype == jnp.bfloat16
    np.testing.assert_allclose(rough.astype(np.float32), expected[2], atol=0.06)
    only_first = qkv[2] if name == "fused" else keep[:, None, None] * qkv[2]
    np.testing.assert_allclose(dropped, by_hand(name, *qkv[:2], only_first), atol=1e-5)


@pytest.mark.parametrize("name", LOGITS)
def test_a_query_that_may_see_nothing_has_finite_gradients(name):
    """Catches 0/0 at padding: one NaN would spread to every weight."""
    mask = np.ones((B, 1, T, S), bool)
    mask[0, 0, 1] = False
    qkv = random_qkv(T, S)

    def total(qkv):
        attended = attention(name)(*qkv, mask=mask)
        return (attended**2).sum(), attended

    gradients, attended = jax.jit(jax.grad(total, has_aux=True))(qkv)
    assert all(np.isfinite(g).all() for g in gradients)
    np.testing.assert_allclose(attended[0, 1], qkv[2][0].mean(0), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "lengths", "options", "sentence"),
    [
        ("fused", (S, S), {"dropout": abs}, "no weights to drop: set model"),
        ("performer", (S, S), {"dropout": abs, "num_features": 8}, "no weights to drop: set model"),
        ("local", (T, S), {"block": 3, "pattern": "local"}, "9 queries and 7 keys have no pos"),
        ("location", (T, S + 3), {}, r"for 9 positions \(model.max_positions\), not for 10"),
    ],
)
def test_what_a_function_cannot_honour_is_refused(name, lengths, options, sentence):
    """Catches dropout that vanishes, positions that share a weight, and two sequences as one."""
    with pytest.raises(ValueError, match=sentence):
        attention(name)(*random_qkv(*lengths), **options)


def test_general_starts_from_equation_1():
    """Catches a start that is another model for each number of heads."""
    qkv = random_qkv(T, S)
    init = jax.jit(ATTENTION_FUNCTIONS["general"]().init_with_output)
    ours, _ = init(jax.random.key(0), *qkv)
    np.testing.assert_allclose(ours, by_hand("scaled_dot_product", *qkv), atol=1e-5)


@pytest.mark.parametrize(
    ("lengths", "masked", "options", "kernel"),
    [
        ((8, 6), False, {}, "cudnn"),
        ((8, 6), True, {}, "cudnn"),
        ((7, 6), False, {}, "cudnn"),
        ((7, 6), True, {}, "xla"),
        ((8, 6), False, {"dtype": "float32"}, "xla"),
        ((8, 6), False, {"width": 12}, "xla"),
        ((8, 6), False, {"width": 256}, "xla"),
        ((8, 6), False, {"capability": "7.5"}, "xla"),
    ],
)
def test_fused_asks_for_the_flash_kernel_where_it_can(
    monkeypatch, lengths, masked, options, kernel
):
    """Catches jax's default, which is never cuDNN, and arguments that cuDNN would end a run for."""
    options = dict(dtype="bfloat16", width=16, capability="9.0") | options
    device = SimpleNamespace(device_kind="NVIDIA H100", compute_capability=options["capability"])
    asked = {}
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(
        jax.nn, "dot_product_attention", lambda query, *_, **how: asked.update(how) or query
    )
    qkv = [jnp.asarray(x, options["dtype"]) for x in random_qkv(*lengths, width=options["width"])]
    mask = np.ones((B, 1, 1, lengths[1]), bool) if masked else None
    jax.eval_shape(partial(fused_attention, mask=mask), *qkv)
    assert asked["implementation"] == kernel
    if masked and kernel == "cudnn":
        assert asked["mask"].shape == (B, 1, 8, 6)  # its bias must have a row per query
