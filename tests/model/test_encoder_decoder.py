"""The whole model: its size, packing, cached decoding, and inputs at the edge."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.tiny_models import (
    count_parameters,
    make_batch,
    random_params,
    sentence,
    tiny_model,
)
from transformer.config import ModelConfig
from transformer.model.loss import make_loss_fn

BIG = dict(d_model=1024, d_ff=4096, num_heads=16)
TABLE_3 = {  # the paper's millions of parameters, for a vocabulary of about 37,000
    "base": ({}, 65),
    "A h=1": (dict(num_heads=1), 65),
    "A h=32": (dict(num_heads=32), 65),
    "C N=2": (dict(num_layers=2), 36),
    "C N=4": (dict(num_layers=4), 50),
    "C N=8": (dict(num_layers=8), 80),
    "B d_k=16": (dict(head_dim=16, value_dim=64), 58),
    "B d_k=32": (dict(head_dim=32, value_dim=64), 60),
    "C d_model=256": (dict(d_model=256, head_dim=32), 28),
    "C d_model=1024": (dict(d_model=1024, head_dim=128), 168),
    "C d_ff=1024": (dict(d_ff=1024), 53),
    "C d_ff=4096": (dict(d_ff=4096), 90),
    "E": (dict(positions="learned"), 65),
    "big": (BIG, 213),
}


def init(model, batch):
    return random_params(model.init, batch, deterministic=True)


@pytest.fixture(scope="module")
def pairs():
    """Five sentence pairs of different lengths."""
    rng = np.random.default_rng(0)
    return [
        (sentence(rng, s), sentence(rng, t)) for s, t in ((3, 4), (1, 1), (5, 3), (2, 6), (4, 2))
    ]


def test_base_has_63_million_parameters_by_hand():
    """Catches a bias in attention, an embedding table too many, and a forgotten layer."""
    attention = 4 * 512 * 512
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    encoder_layer = attention + feed_forward + 2 * (512 + 512)
    decoder_layer = 2 * attention + feed_forward + 3 * (512 + 512)
    expected = 6 * (encoder_layer + decoder_layer) + 37_000 * 512
    assert round(expected / 1e6, 2) == 63.05
    assert count_parameters(ModelConfig(), 37_000, 37_000) == expected


@pytest.mark.parametrize("row", TABLE_3)
def test_table_3_has_the_papers_numbers_of_parameters(row):
    """Catches a width that reaches no weight, and rows of Table 3 that are another model."""
    changes, millions = TABLE_3[row]
    ours = count_parameters(ModelConfig(**changes), 37_000, 37_000) / 1e6
    assert millions * 0.93 < ours < millions * 1.01


@pytest.mark.parametrize("sharing, num_tables", [("all", 1), ("target", 2), ("none", 3)])
def test_embedding_sharing_has_as_many_tables_as_it_says(sharing, num_tables, pairs):
    """Catches a table that exists and changes nothing, or is shared without being asked to."""
    model = tiny_model(embedding_sharing=sharing, num_layers=1)
    batch = make_batch([pairs[:1]], 3, 4)
    params = init(model, batch)
    run = jax.jit(lambda params: model.apply({"params": params}, batch, deterministic=True))
    tables = [name for name in params if name.endswith(("embedding", "softmax"))]
    assert len(tables) == num_tables
    for name in tables:
        others = params | {name: {"table": params[name]["table"][::-1]}}
        assert not np.allclose(run(others), run(params)), name


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_packed_equals_one_a_row(positions, pairs):
    """Catches any way in which neighbours in a row, or padding, change a sentence."""
    model = tiny_model(positions=positions, num_layers=1)
    packed = make_batch([pairs[:3], pairs[3:]], 12, 9)
    apart = make_batch([[pair] for pair in pairs], 7, 8)
    params = init(model, packed)
    run = jax.jit(partial(model.apply, deterministic=True))
    ours, expected = (run({"params": params}, batch) for batch in (packed, apart))
    places = [(row, i + 1) for row, count in enumerate((3, 2)) for i in range(count)]
    for index, (row, segment) in enumerate(places):
        inside = packed.target_segments[row] == segment
        np.testing.assert_allclose(
            ours[row][inside], expected[index, : inside.sum()], atol=1e-5, err_msg=str(index)
        )


@pytest.mark.parametrize(
    "changes",
    [
        {},
        dict(norm="pre"),
        dict(positions="learned", embedding_sharing="target"),
        dict(embedding_sharing="none", head_dim=4),
    ],
    ids=str,
)
def test_cached_decoding_equals_the_full_pass(changes, pairs):
    """Catches another model at search time than in training: positions, masks, tables, cache."""
    model = tiny_model(num_layers=1, **changes)
    batch = make_batch([[pair] for pair in pairs], 6, 7)
    variables = {"params": init(model, batch)}
    full = jax.jit(partial(model.apply, deterministic=True))(variables, batch)
    decode_step = jax.jit(partial(model.apply, method="decode_step"))
    lengths = (batch.input_segments != 0).sum(1)
    encoded = model.apply(variables, batch.inputs, lengths, method="encode_for_search")
    cache = model.apply(variables, len(pairs), 1, 7, method="init_cache")
    places = jnp.arange(7)
    for position in range(7):
        tokens = jnp.array(batch.decoder_inputs[:, position, None])
        ancestors = jnp.broadcast_to(jnp.where(places <= position, 0, -1), (len(pairs), 1, 7))
        logits, cache = decode_step(variables, tokens, cache, position, ancestors, encoded)
        is_real = batch.target_segments[:, position] != 0
        np.testing.assert_allclose(
            logits[is_real, 0], full[is_real, position], atol=1e-5, err_msg=str(position)
        )


@pytest.mark.parametrize("norm, dtype", [("post", "bfloat16"), ("pre", "float32")])
def test_edge_rows_give_finite_loss_and_gradients(norm, dtype, pairs):
    """Catches NaN from a row of padding alone or a sentence of one piece, in any number format."""
    rates = dict(dropout_rate=0.1, attention_dropout_rate=0.1)
    model = tiny_model(num_layers=1, dtype=dtype, norm=norm, **rates)
    batch = make_batch([pairs[:2], [], pairs[1:2]], 8, 8)
    loss_fn = make_loss_fn(model, 0.1)
    run = jax.jit(jax.value_and_grad(lambda p: loss_fn(p, batch, jax.random.PRNGKey(0))[0]))
    loss, gradients = run(init(model, batch))
    assert np.isfinite(loss) and loss > 0
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(gradients))


@pytest.mark.parametrize("rows", [1, 2, 8])
@pytest.mark.parametrize("length", [1, 16, 40])
def test_a_compiled_search_step_is_what_its_operations_say(rows, length):
    """Catches what jax 0.10 does to one sentence's beams on a CPU if they are summed in loops."""
    model, width, rng = tiny_model(), 4, np.random.default_rng(0)
    batch = make_batch([[(sentence(rng, 6), sentence(rng, 6))] for _ in range(rows)], 6, 6)
    variables = {"params": init(model, batch)}
    lengths = np.full(rows, 6)
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
