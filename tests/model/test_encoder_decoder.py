"""The whole model: its tables, packing, plain arrays, cached decoding, and inputs at the edge."""

from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.control_ids import BOS, EOS
from tests.helpers.tiny_models import (
    make_batch,
    random_params,
    sentence,
    tiny_config,
    tiny_model,
)
from transformer.data.rows.batch import Batch
from transformer.model.layers import Block, FeedForward
from transformer.model.loss import cross_entropy, per_token
from transformer.model.primitives import as_batch
from transformer.registry import register_block
from transformer.search.decoding import HypothesisRules, Limits
from transformer.search.programs import make_step_fn
from transformer.search.sampling import Sampling
from transformer.search.slots import search_to_end
from transformer.special_tokens import SpecialIds

S, T = 6, 7


def init(model, batch):
    return random_params(model.init, batch, deterministic=True)


RNG = np.random.default_rng(0)
PAIRS = [(sentence(RNG, s), sentence(RNG, t)) for s, t in ((3, 4), (1, 1), (5, 3), (2, 6), (4, 2))]
ALONE = make_batch([[pair] for pair in PAIRS], S, T)
PLAIN = ALONE.inputs, ALONE.targets  # with PAD behind them


@pytest.mark.parametrize("sharing, num_tables", [("all", 1), ("target", 2), ("none", 3)])
def test_embedding_sharing_has_the_tables_that_it_says(sharing, num_tables):
    """Catches a table that exists and changes nothing, or is shared without being asked to."""
    model = tiny_model(embedding_sharing=sharing, num_layers=1)
    batch = make_batch([PAIRS[:1]], S, T)
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
def test_packed_sentences_and_plain_arrays_are_the_same_to_a_model(positions):
    """Catches a sentence that its neighbours in a row, its place there or padding change."""
    model = tiny_model(positions=positions, num_layers=1)
    packed = make_batch([PAIRS[:3], PAIRS[3:]], 12, 9)
    params = init(model, packed)
    decoder = params["decoder"]["layer_0"]
    assert ("relative_positions" in decoder["self_attention"]) == (positions == "relative")
    assert "relative_positions" not in decoder["encoder_attention"]
    assert ("source_positions" in params) == (positions == "learned")
    run = jax.jit(partial(model.apply, deterministic=True))
    ours = run({"params": params}, packed)
    expected = run({"params": params}, *PLAIN)
    rows = [(row, i + 1) for row, count in enumerate((3, 2)) for i in range(count)]
    for index, (row, segment) in enumerate(rows):
        inside = packed.target_segments[row] == segment
        np.testing.assert_allclose(
            ours[row][inside], expected[index, : inside.sum()], atol=1e-5, err_msg=str(index)
        )


def test_plain_arrays_are_a_batch_of_one_pair_per_row():
    """Catches positions or a shift unlike those of training, and a call that is misunderstood."""
    for made in (jax.jit(as_batch)(*PLAIN), Batch.from_arrays(*PLAIN)):
        jax.tree.map(np.testing.assert_array_equal, made, ALONE)
    assert as_batch(ALONE) is ALONE
    assert as_batch(PLAIN[0]).target_segments.tolist() == [[1]] * len(PAIRS)
    init = partial(tiny_model(num_layers=1).init, deterministic=True)
    wrong = ((PLAIN[:1], r"targets \[B, T\]"), ((ALONE, PLAIN[1]), "its own targets"))
    for inputs, message in wrong:
        with pytest.raises(ValueError, match=message):
            jax.eval_shape(init, jax.random.key(0), *inputs)


PUBLISHED = dict(num_decoder_layers=2, activation="swish", projection_bias=True)
PUBLISHED |= dict(output_bias=True, scale_embedding=False, embedding_norm=True, norm_epsilon=1e-2)


class WideBlock(Block):
    def make_feed_forward(self):
        return FeedForward(tiny_config(d_ff=48))


@pytest.mark.parametrize(
    "options", [{}, PUBLISHED, {"block": "wide"}], ids=["paper", "published", "own block"]
)
def test_cached_decoding_equals_the_full_pass(options):
    """Catches other positions, masks, tables or blocks at search time than in training."""
    register_block("wide", WideBlock)
    changes = dict(norm="pre", positions="learned", embedding_sharing="none", head_dim=4)
    model = tiny_model(num_layers=1, **changes, **options)
    variables = {"params": init(model, ALONE)}
    for stack in ("encoder", "decoder"):
        kernel = variables["params"][stack]["layer_0"]["feed_forward"]["inner"]["kernel"]
        assert kernel.shape == (16, 48 if "block" in options else 32)
    lengths, limits = (ALONE.input_segments != 0).sum(1), Limits(np.full(len(PAIRS), T), PLAIN[1])

    @jax.jit
    def run(variables):
        encoded = model.apply(variables, ALONE.inputs, lengths, method="encode_for_search")
        cache = model.apply(variables, len(PAIRS), 1, T, method="init_cache")
        method = Sampling(HypothesisRules(BOS, EOS, "power", 0.0), temperature=0.0)
        step_fn = make_step_fn(model, variables["params"])
        found = search_to_end(method, step_fn, limits, cache, encoded)
        _, nll = per_token(model.apply(variables, ALONE, deterministic=True), PLAIN[1], 0.0)
        return found.log_probs[:, 0], -(nll * ALONE.weights).sum(1)

    np.testing.assert_allclose(*run(variables), rtol=1e-5)


@pytest.mark.parametrize("attention", ["scaled_dot_product", "general", "local"])
def test_edge_rows_give_finite_loss_and_gradients(attention):
    """Catches NaN from a row of padding alone or a sentence of one token, and lost gradients."""
    changes = dict(attention=attention, dropout_rate=0.1, attention_dropout_rate=0.1)
    model = tiny_model(num_layers=1, norm="pre", **changes)
    inputs, targets = (np.pad(ids, ((0, 1), (0, 0))) for ids in PLAIN)
    params = random_params(model.init, inputs, targets, deterministic=True)

    @jax.jit
    @jax.value_and_grad
    def run(params):
        rngs, variables = {"dropout": jax.random.PRNGKey(0)}, {"params": params}
        logits = model.apply(variables, inputs, targets, deterministic=False, rngs=rngs)
        return cross_entropy(logits, targets, targets != 0, 0.1)[0]

    loss, gradients = run(params)
    assert np.isfinite(loss) and loss > 0
    for path, gradient in jax.tree_util.tree_leaves_with_path(gradients):
        assert np.isfinite(gradient).all() and np.any(gradient), path


def test_ids_of_another_vocabulary():
    """Catches a start, or padding of plain arrays, that is that of our own vocabularies."""
    model = tiny_model(num_layers=1)
    variables = {"params": init(model, ALONE)}

    def run(arrays, **ids):
        other = model.clone(special=SpecialIds(**ids))
        return other.apply(variables, *arrays, deterministic=True)

    expected, is_real = run(PLAIN), PLAIN[1] != 0
    padded = run([np.where(ids == 0, -1, ids) for ids in PLAIN], pad=-1)
    np.testing.assert_allclose(padded[is_real], expected[is_real], atol=1e-6)
    assert np.abs(run(PLAIN, bos=7) - expected)[:, 0].max() > 1e-3
