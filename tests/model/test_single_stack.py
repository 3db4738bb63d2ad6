"""The models of a single Stack: who sees whom, and that neighbours change nothing."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import gpt2
from tests.helpers.control_ids import EOS
from tests.helpers.rings import others_long
from tests.helpers.tiny_models import VOCAB_SIZE, make_batch, random_params, sentence, tiny_config
from transformer.data.rows.masked_batches import MaskedBatch
from transformer.model.primitives import as_batch
from transformer.model.single_stack import CausalLM, MaskedLM, TextClassifier, pool
from transformer.search.decoding import FREE, HypothesisRules, Limits
from transformer.search.programs import make_step_fn
from transformer.search.sampling import Sampling
from transformer.search.slots import search_to_end
from transformer.special_tokens import OWN_IDS, SpecialIds

RNG = np.random.default_rng(0)
CONFIG = tiny_config(num_layers=1)


def make_run(model, *example):
    """A function of the model's inputs under random parameters, compiled per shape; and these."""
    params = random_params(model.init, *example, deterministic=True)
    run = jax.jit(partial(model.apply, deterministic=True))
    return lambda *inputs: np.asarray(run({"params": params}, *inputs)), params


def packed(rows, length, targets_per_row):
    """Rows of sentences of ids as a `Batch`, whose targets are one class per sentence."""
    return make_batch([[(ids, [4]) for ids in row] for row in rows], length, targets_per_row)


def padded(sentences, length):
    """Sentences as plain ids [B, S], with PAD behind them."""
    return np.array([[*ids, *[0] * (length - len(ids))] for ids in sentences], np.int32)


@pytest.mark.parametrize("pooling", ["mean", "first", "pooler"])
def test_a_class_does_not_depend_on_neighbours_or_padding(pooling):
    """Catches a mean over padding or over the neighbours of a packed row, and wrong positions."""
    sentences = [sentence(RNG, n) for n in (3, 5, 2, 4)]
    batch = packed([sentences[:3], sentences[3:]], 12, 3)
    config = tiny_config(num_layers=1, pooling=pooling)
    run, _ = make_run(TextClassifier(config, VOCAB_SIZE, num_classes=3), batch)
    together, alone = run(batch), run(padded(sentences, 8))
    assert alone.shape == (4, 1, 3)
    found = np.concatenate([together[0], together[1, :1]])
    np.testing.assert_allclose(found, alone[:, 0], atol=1e-5)
    assert abs(found[0] - found[1]).max() > 1e-3


def test_a_mean_of_many_positions_is_not_rounded():
    """Catches a count in bfloat16, where 299 is 300, and means that depend on the length."""
    rows = as_batch(np.full((1, 299), 5, np.int32))
    pooled = pool(jnp.ones((1, 299, 2), jnp.bfloat16), rows, "mean")
    assert pooled.dtype == jnp.bfloat16 and (pooled == 1).all()


def test_token_types_are_vectors_of_the_texts_of_a_pair():
    """Catches types that count through a packed row, change at [SEP] itself, or are added twice."""
    pairs = [[1, 5, 6, EOS, 7, EOS], [1, 8, EOS], [1, 9, EOS, 9, 10, EOS]]
    batch = packed([pairs], 16, 3)
    config = tiny_config(num_layers=1, positions="learned", token_types=True)
    run, params = make_run(TextClassifier(config, VOCAB_SIZE, num_classes=3), batch)
    together, types = run(batch), params["tokens"].pop("types")
    plain = TextClassifier(replace(config, token_types=False), VOCAB_SIZE, 3)
    table = params["tokens"]["positions"]["table"]
    for number, ids in enumerate(pairs):
        first = 1 + ids.index(EOS)
        added = np.where(np.arange(16)[:, None] < first, *types)
        params["tokens"]["positions"] = {"table": table + added}
        alone = plain.apply({"params": params}, padded([ids], 8), deterministic=True)
        np.testing.assert_allclose(together[0, number], alone[0, 0], atol=1e-5)


def test_the_next_sentence_is_predicted_from_the_pooler():
    """Catches a head at another position, tokens predicted otherwise, a leak between sentences."""
    ids = [1, 5, 6, EOS, 7, EOS]
    batch = packed([[ids, ids[:4]]], 12, 2)
    config = tiny_config(num_layers=1, token_types=True, pooling="pooler", next_sentence=True)
    model = MaskedLM(config, VOCAB_SIZE)
    params = random_params(model.init, batch, deterministic=True)
    run = partial(model.apply, {"params": params}, deterministic=True)
    columns = np.array([[4, 1, 0, 0]])
    guessed = columns, np.array([[7, 5, 0, 0]]), np.array([[1, 1, 0, 0]])
    masked = MaskedBatch(*batch[:3], batch.targets, *guessed)
    tokens, pairs = run(masked, method="predict_both")
    np.testing.assert_allclose(tokens, run(batch)[:, columns[0]], atol=1e-5)
    np.testing.assert_array_equal(tokens, run(masked))
    alone = run(padded([ids[:4]], 7))
    np.testing.assert_allclose(run(batch)[0, 6:10], alone[0, :4], atol=1e-5)
    dense, head = params["pooler"]["dense"], params["next_sentence"]
    pooled = np.tanh(run(batch, method="encode") @ dense["kernel"] + dense["bias"])
    np.testing.assert_allclose(pairs, pooled @ head["kernel"] + head["bias"], atol=1e-5)


@pytest.mark.parametrize("kind", [CausalLM, MaskedLM])
def test_scores_of_the_vocabulary_are_rounded_in_training_alone(kind):
    """Catches the largest array of a training step that takes twice its memory."""
    model = kind(replace(CONFIG, dtype="bfloat16"), VOCAB_SIZE)
    ids = np.full((1, 4), 5, np.int32)

    def dtype_of(deterministic):
        rngs = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
        call = partial(model.init_with_output, rngs, ids, deterministic=deterministic)
        return jax.eval_shape(call)[0].dtype.name

    assert (dtype_of(True), dtype_of(False)) == ("float32", "bfloat16")


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "relative"])
def test_a_search_gives_the_scores_of_the_whole_pass(positions):
    """Catches another start or position in a search, and columns written over too early."""
    memory = dict(block="transformer_xl", segment_length=2, memory_length=3)
    options = {} if positions == "sinusoidal" else memory
    model = CausalLM(tiny_config(num_layers=1, positions=positions, **options), VOCAB_SIZE)
    targets = RNG.integers(4, VOCAB_SIZE, (3, 11)).astype(np.int32)
    inputs = np.concatenate([np.full((3, 1), EOS), targets[:, :-1]], 1).astype(np.int32)
    run, params = make_run(model, inputs)

    @jax.jit
    def search():
        cache = model.apply({}, 3, 1, 11, method="init_cache")
        assert cache[0].value.shape[2] == (2 + 3 if options else 11)
        method = Sampling(HypothesisRules(EOS, FREE, "power", 0.0), temperature=0.0)
        limits = Limits(np.full(3, 12), targets)
        return search_to_end(method, make_step_fn(model, params), limits, cache)

    found = search()
    np.testing.assert_array_equal(found.ids[:, 0], targets)
    logits = run(inputs).copy()
    logits[..., [0, 1, 3]] = -np.inf  # ids that stand for no text are never written
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    gold = np.take_along_axis(log_probs, targets[..., None], -1).sum((1, 2))
    np.testing.assert_allclose(found.log_probs[:, 0], gold, rtol=1e-5)


@pytest.mark.parametrize("special", [OWN_IDS, SpecialIds(*[9] * 5), SpecialIds(-1, 5, 6, 7, 7)])
def test_a_language_model_continues_with_text_or_ends(special):
    """Catches a control token in a continuation, and a token of text that never comes."""
    model = CausalLM(CONFIG, VOCAB_SIZE, special=special)
    params = random_params(model.init, padded([[5, 6]], 4), deterministic=True)
    cache = model.apply({}, 1, 1, 4, method="init_cache")
    tokens, ancestors = np.array([[5]]), np.array([[[0, -1, -1, -1]]])
    inputs = tokens, cache, np.zeros(1, int), 0, ancestors, ()
    logits, _ = model.apply({"params": params}, *inputs, method="decode_step")
    silent = {i for i in special if i not in (special.eos, -1)}
    assert set(np.flatnonzero(np.isneginf(logits[0, 0]))) == silent


def init_gpt2(config, vocab_size):
    ids = np.zeros((1, 1), np.int32)
    return CausalLM(config, vocab_size).init(jax.random.key(0), ids, deterministic=True)["params"]


def test_gpt2_divides_what_is_added_to_the_residual_stream():
    """Catches the division of another matrix, and a √N without the two sub-layers of a layer."""
    config = tiny_config(
        d_model=64, d_ff=128, num_layers=2, initializer="gpt2", positions="learned"
    )
    params = jax.jit(lambda: init_gpt2(config, 300))()
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
    shapes = jax.eval_shape(lambda: init_gpt2(config.model, config.tokenizer.vocab_size))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == published
