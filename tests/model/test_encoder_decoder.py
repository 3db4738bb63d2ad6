"""The whole model: its size, packing, plain arrays, cached decoding, and inputs at the edge."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.control_ids import PAD
from tests.helpers.tiny_models import (
    VOCAB_SIZE,
    count_parameters,
    make_batch,
    random_params,
    sentence,
    tiny_config,
    tiny_model,
)
from transformer.config import ModelConfig
from transformer.data.rows.batch import Batch
from transformer.model.encoder_decoder import Transformer, shift_right
from transformer.model.layers import Block, FeedForward
from transformer.model.loss import cross_entropy
from transformer.model.primitives import as_batch
from transformer.registry import register_block
from transformer.special_tokens import SpecialIds

S, T = 6, 7
TABLE_3 = {  # the paper's millions of parameters, for a vocabulary of about 37,000
    "A h=1": (dict(num_heads=1), 65),
    "A h=32": (dict(num_heads=32), 65),
    "B d_k=16": (dict(head_dim=16, value_dim=64), 58),
    "B d_k=32": (dict(head_dim=32, value_dim=64), 60),
    "E": (dict(positions="learned"), 65),
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


@pytest.fixture(scope="module")
def plain_arrays(pairs):
    """The pairs as inputs [B, S] and targets [B, T], with PAD behind them."""
    rows = [
        [np.pad(ids, (0, length - len(ids)), constant_values=PAD) for ids in side]
        for side, length in zip(zip(*pairs, strict=True), (S, T), strict=True)
    ]
    return tuple(np.array(side, np.int32) for side in rows)


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
    """Catches a width that reaches no weight; rows C and "big" are in the tests of configs."""
    changes, millions = TABLE_3[row]
    ours = count_parameters(ModelConfig(**changes), 37_000, 37_000) / 1e6
    assert millions * 0.93 < ours < millions * 1.01


@pytest.mark.parametrize("sharing, num_tables", [("all", 1), ("target", 2), ("none", 3)])
def test_embedding_sharing_has_the_tables_that_it_says(sharing, num_tables, pairs):
    """Catches a table that exists and changes nothing, or is shared without being asked to."""
    model = tiny_model(embedding_sharing=sharing, num_layers=1)
    batch = make_batch([pairs[:1]], S, T)
    params = init(model, batch)
    tables = [name for name in params if name.endswith(("embedding", "softmax"))]
    assert len(tables) == num_tables
    if sharing == "all":
        return  # the one table
    run = jax.jit(lambda params: model.apply({"params": params}, batch, deterministic=True))
    for name in tables:
        others = params | {name: {"table": params[name]["table"][::-1]}}
        assert not np.allclose(run(others), run(params)), name


@pytest.mark.parametrize("positions", ["learned", "rotary", "relative"])
def test_packed_sentences_and_plain_arrays_are_the_same_to_a_model(positions, pairs, plain_arrays):
    """Catches any way in which neighbours in a row, or padding, change a sentence.

    Also distances from the beginning of a row, and a scheme in attention to the source, with which
    targets have no positions in common.
    """
    model = tiny_model(positions=positions, num_layers=1)
    packed = make_batch([pairs[:3], pairs[3:]], 12, 9)
    params = init(model, packed)
    decoder = params["decoder"]["layer_0"]
    assert ("relative_positions" in decoder["self_attention"]) == (positions == "relative")
    assert "relative_positions" not in decoder["encoder_attention"]
    assert ("source_positions" in params) == (positions == "learned")
    run = jax.jit(partial(model.apply, deterministic=True))
    ours = run({"params": params}, packed)
    expected = run({"params": params}, *plain_arrays)
    rows = [(row, i + 1) for row, count in enumerate((3, 2)) for i in range(count)]
    for index, (row, segment) in enumerate(rows):
        inside = packed.target_segments[row] == segment
        np.testing.assert_allclose(
            ours[row][inside], expected[index, : inside.sum()], atol=1e-5, err_msg=str(index)
        )


def test_plain_arrays_are_a_batch_of_one_pair_per_row(pairs, plain_arrays):
    """Catches positions, segments or a shift of the targets unlike those of training."""
    made = jax.jit(as_batch)(*plain_arrays)
    for batch in (make_batch([[pair] for pair in pairs], S, T), Batch.from_arrays(*plain_arrays)):
        jax.tree.map(np.testing.assert_array_equal, made, batch)
    assert as_batch(batch) is batch
    assert as_batch(plain_arrays[0]).target_segments.tolist() == [[1]] * len(pairs)


def test_plain_arrays_come_with_targets_and_a_batch_without():
    """Catches a call that is silently understood as something else."""
    ids = np.array([[4, 2]])
    batch, model = Batch.from_arrays(ids, ids), tiny_model(num_layers=1)
    for inputs, message in (((ids,), r"targets \[B, T\]"), ((batch, ids), "its own targets")):
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(partial(model.init, deterministic=True), jax.random.key(0), *inputs)


PUBLISHED = dict(num_decoder_layers=2, activation="swish", projection_bias=True)
PUBLISHED |= dict(output_bias=True, scale_embedding=False, embedding_norm=True, norm_epsilon=1e-2)


@pytest.mark.parametrize("options", [{}, PUBLISHED], ids=["paper", "published"])
def test_cached_decoding_equals_the_full_pass(pairs, plain_arrays, options):
    """Catches another model at search time than in training: positions, masks, tables, cache."""
    changes = dict(norm="pre", positions="learned", embedding_sharing="none", head_dim=4)
    model = tiny_model(num_layers=1, **changes, **options)
    batch = Batch.from_arrays(*plain_arrays)
    variables = {"params": init(model, batch)}
    full = jax.jit(partial(model.apply, deterministic=True))(variables, batch)
    lengths = (batch.input_segments != 0).sum(1)
    encode = jax.jit(partial(model.apply, method="encode_for_search"))
    encoded = encode(variables, batch.inputs, lengths)
    cache = model.apply(variables, len(pairs), 1, T, method="init_cache")
    decode_step = jax.jit(partial(model.apply, method="decode_step"))
    decoder_inputs = shift_right(batch.targets, batch.target_positions, bos=1)
    for position in range(T):
        ancestors = np.where(np.arange(T) <= position, 0, -1)
        ancestors = np.broadcast_to(ancestors, (len(pairs), 1, T))
        tokens = decoder_inputs[:, position, None]
        logits, cache = decode_step(
            variables, tokens, cache, np.full(len(pairs), position), position, ancestors, encoded
        )
        is_real = batch.target_segments[:, position] != 0
        np.testing.assert_allclose(
            logits[is_real, 0], full[is_real, position], atol=1e-5, err_msg=str(position)
        )


def test_edge_rows_give_finite_loss_and_gradients(plain_arrays):
    """Catches NaN from a row of padding alone or a sentence of one token, and lost gradients."""
    rates = dict(dropout_rate=0.1, attention_dropout_rate=0.1)
    model = tiny_model(num_layers=1, norm="pre", **rates)
    inputs, targets = (np.pad(ids, ((0, 1), (0, 0))) for ids in plain_arrays)
    params = random_params(model.init, inputs, targets, deterministic=True)

    @jax.jit
    @jax.value_and_grad
    def run(params):
        rngs, variables = {"dropout": jax.random.PRNGKey(0)}, {"params": params}
        logits = model.apply(variables, inputs, targets, deterministic=False, rngs=rngs)
        return cross_entropy(logits, targets, targets != PAD, 0.1)[0]

    loss, gradients = run(params)
    assert np.isfinite(loss) and loss > 0
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.isfinite(gradient).all() and np.any(gradient), path


def test_a_model_is_made_of_the_block_that_its_configuration_names():
    """Catches a block that reaches one of the two stacks only, or not the cached steps."""

    class Wide(FeedForward):
        pass

    class WideBlock(Block):
        def make_feed_forward(self):
            return Wide(tiny_config(d_ff=48))

    register_block("wide", WideBlock)
    model = Transformer(tiny_config(block="wide"), VOCAB_SIZE, VOCAB_SIZE, remat=True)
    ids = np.array([[4, 2]])
    run = partial(model.init_with_output, deterministic=True)
    logits, variables = jax.eval_shape(run, jax.random.key(0), ids, ids)
    assert logits.shape == (1, 2, VOCAB_SIZE)
    for stack in ("encoder", "decoder"):
        for block in variables["params"][stack].values():
            assert block["feed_forward"]["inner"]["kernel"].shape == (16, 48)

    def decode(variables):
        encoded = model.apply(variables, ids, np.array([2]), method="encode_for_search")
        cache = model.apply(variables, 1, 1, 4, method="init_cache")
        inputs = jnp.ones((1, 1), int), cache, jnp.zeros(1, int), 0, jnp.zeros((1, 1, 4), int)
        return model.apply(variables, *inputs, encoded, method="decode_step")[0]

    assert jax.eval_shape(decode, variables).shape == (1, 1, VOCAB_SIZE)


def test_the_decoder_reads_the_targets_before():
    """Catches inputs that run on from one sentence to the next, and the target itself."""
    targets, positions = np.array([[6, 6, 6, 2, 9, 2]]), np.array([[0, 1, 2, 3, 0, 1]])
    assert shift_right(targets, positions, bos=1).tolist() == [[1, 6, 6, 6, 1, 9]]


def test_ids_of_another_vocabulary(plain_arrays):
    """Catches a start, or padding of plain arrays, that is that of our own vocabularies."""
    inputs, targets = plain_arrays
    others = [np.where(ids == PAD, -1, ids) for ids in (inputs, targets)]
    own, other = tiny_model(num_layers=1), tiny_model(num_layers=1)
    other = other.clone(special=SpecialIds(pad=-1))
    variables = {"params": init(own, Batch.from_arrays(inputs, targets))}
    found, expected = (
        model.apply(variables, *arrays, deterministic=True)
        for model, arrays in ((other, others), (own, plain_arrays))
    )
    is_real = targets != PAD
    np.testing.assert_allclose(found[is_real], expected[is_real], atol=1e-6)
    started = own.clone(special=SpecialIds(bos=7)).apply(
        variables, *plain_arrays, deterministic=True
    )
    assert np.abs(started - expected)[:, 0].max() > 1e-3
