"""Hard attention: what it draws, the gradient of the draw, and tiny models that learn with it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.helpers.attention import random_qkv
from tests.helpers.control_ids import EOS
from tests.helpers.tiny_models import make_batch, random_params, sentence, tiny_model
from transformer.model.attention_functions import scaled_dot_product_attention
from transformer.model.attention_modules import HardAttention, HardGumbelAttention, gumbel_noise
from transformer.model.loss import make_loss_fn
from transformer.registry import HARD_ATTENTION
from transformer.tasks.translation import make_translation_loss_fn, score_of_samples
from transformer.training.steps import init_state, make_train_step

B, N, T, S = 2, 3, 5, 7


def arrays(rows=B):
    """query [B, T, N, H], key and value [B, S, N, H], a mask [B, 1, T, S] with no empty row."""
    mask = np.random.default_rng(1).random((rows, 1, T, S)) < 0.6
    mask[..., 0] = True
    return random_qkv(T, S, rows=rows), mask


def draw(module, qkv, mask, seed):
    """(what is attended to in training, the samples' log-probabilities [B, N, T] or None)."""
    apply = partial(module.apply, {}, mask=mask, dropout=lambda weights: weights)
    attended, sown = apply(*qkv, rngs={"dropout": jax.random.key(seed)}, mutable=["samples"])
    return attended, sown.get("samples", {}).get("log_probs", (None,))[0]


@pytest.mark.parametrize("module", [HardAttention(), HardGumbelAttention()], ids=HARD_ATTENTION)
def test_without_dropout_the_likeliest_value_is_taken(module):
    """Catches a translation that depends on chance, or on what the mask hides."""
    qkv, mask = arrays()
    ours = jax.jit(partial(module.apply, {}, mask=mask))(*qkv)
    logits = np.where(mask, np.einsum("BTNH,BSNH->BNTS", *qkv[:2]), -np.inf)
    expected = np.take_along_axis(qkv[2], logits.argmax(-1).swapaxes(1, 2)[..., None], axis=1)
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("module", [HardAttention(), HardGumbelAttention()], ids=HARD_ATTENTION)
def test_positions_are_drawn_by_their_probabilities(module):
    """Catches noise of another distribution, draws behind a mask, rows that are never soft."""
    qkv, mask = arrays()
    one_hot = np.broadcast_to(np.eye(S, dtype=np.float32)[:, None], (B, S, N, S))
    qkv = *qkv[:2], one_hot  # values that show the weights
    probabilities = jax.jit(partial(scaled_dot_product_attention, mask=mask))(*qkv)
    seeds = jnp.arange(2000)
    found = jax.jit(jax.vmap(lambda seed: draw(module, qkv, mask, seed)[0]))(seeds)
    is_soft = np.isclose(found, probabilities, atol=1e-5).all((2, 3, 4))  # [seed, B]
    expected = 0 if isinstance(module, HardGumbelAttention) else 0.5
    np.testing.assert_allclose(is_soft.mean(0), expected, atol=0.05)
    for row, is_soft_row in enumerate(is_soft.T):
        drawn = found[~is_soft_row, row]
        np.testing.assert_allclose(drawn.max(-1), 1, atol=1e-5)
        np.testing.assert_allclose(drawn.mean(0), probabilities[row], atol=0.07)
    hidden = np.broadcast_to(~mask, (B, N, T, S)).swapaxes(1, 2)
    assert not np.any(np.asarray(found)[:, hidden])


def test_no_random_bits_give_infinite_noise():
    """Catches a uniform number rounded to 1, as of one in 16 million draws: the loss was NaN."""
    bits = jnp.array([0, 1, 2**31, 2**32 - 256, 2**32 - 1], jnp.uint32)
    noise = gumbel_noise(bits)
    assert np.isfinite(noise).all() and (np.diff(noise) >= 0).all()
    assert noise[0] < -2 < 15 < noise[-1]


@pytest.mark.long
def test_draws_do_not_depend_on_empty_rows():
    """Catches noise that changes where a batch is filled up for another number of devices."""
    (few, mask), (many, _) = arrays(), arrays(rows=3)
    many = [np.concatenate([a, b[2:]]) for a, b in zip(few, many, strict=True)]
    wide = np.concatenate([mask, mask[:1]])
    ours, expected = draw(HardAttention(), few, mask, 0)[0], draw(HardAttention(), many, wide, 0)[0]
    np.testing.assert_array_equal(ours, expected[:2])


def test_the_score_functions_gradient_is_unbiased():
    """Catches a log-probability of another draw, and a scale or a mask that is missing from it."""
    qkv, mask = arrays()
    factors = np.random.default_rng(1).normal(size=qkv[0].shape).astype(np.float32)

    def surrogate(query, seed):
        attended, log_probs = draw(HardAttention(), [query, *qkv[1:]], mask, seed)
        losses = (attended * factors).sum(-1)  # [B, T, N], which rows that are soft differentiate
        return (losses + jax.lax.stop_gradient(losses) * log_probs.swapaxes(1, 2)).sum()

    def soft(query):
        return (scaled_dot_product_attention(query, *qkv[1:], mask=mask) * factors).sum()

    estimates = jax.jit(jax.vmap(jax.grad(surrogate), (None, 0)))(qkv[0], jnp.arange(4000))
    expected = jax.jit(jax.grad(soft))(qkv[0])
    errors = (estimates.mean(0) - expected) / (estimates.std(0) / 4000**0.5 + 1e-6)
    assert np.abs(errors).max() < 4.5, errors
    assert np.abs(expected).max() > 0.1

    def gumbel(query, seed):
        return (draw(HardGumbelAttention(), [query, *qkv[1:]], mask, seed)[0] * factors).sum()

    biased = jax.jit(jax.vmap(jax.grad(gumbel), (None, 0)))(qkv[0], jnp.arange(1000)).mean(0)
    assert np.corrcoef(np.ravel(biased), np.ravel(expected))[0, 1] > 0.8


def test_a_sample_answers_for_the_later_targets_of_its_sentence():
    """Catches the loss of a neighbour in the row or of earlier targets, and another layer's."""
    advantage, segments = jnp.array([[1.0, 10.0, 100.0]]), np.array([[1, 1, 2]])

    def score(log_probs):
        leaves = {"encoder_attention": {"alignment": {"log_probs": (log_probs[0],)}}}
        last = {"encoder_attention": {"alignment": {"log_probs": (log_probs[1],)}}}
        return score_of_samples({"layer_0": leaves, "layer_1": last}, advantage, segments)

    first, last = jax.grad(score)([jnp.zeros((1, 2, 3)), jnp.zeros((1, 2, 3))])
    np.testing.assert_array_equal(first, [[[11, 10, 100]] * 2])
    np.testing.assert_array_equal(last, [[[1, 10, 100]] * 2])


def reversing_batch(rng, num_rows, length):
    """Rows of one sentence each, whose translation is its reverse."""
    sentences = [sentence(rng, rng.integers(2, length + 1)) for _ in range(num_rows)]
    return make_batch([[(ids, [*ids[-2::-1], EOS])] for ids in sentences], length, length)


@pytest.mark.long
@pytest.mark.parametrize("name", HARD_ATTENTION)
def test_reversing_is_learned_and_one_position_is_seen(name):
    """Catches an estimator of the wrong sign, and attention to several positions in translation."""
    rng, length, num_steps = np.random.default_rng(0), 5, 250
    model = tiny_model(attention=name, norm="pre", d_model=32, d_ff=64, num_layers=1)
    loss_fn = make_translation_loss_fn(model, 0.0)
    optimizer = optax.adam(optax.linear_schedule(0.01, 0.001, num_steps))
    state = jax.jit(lambda batch: init_state(model, optimizer, batch, 0))(
        reversing_batch(rng, 1, length)
    )
    train_step = jax.jit(make_train_step(loss_fn, optimizer, 0), donate_argnums=0)
    for _ in range(num_steps):
        state, sums = train_step(state, reversing_batch(rng, 64, length))
    test = reversing_batch(rng, 64, length)

    @jax.jit
    def evaluate(params):
        apply = partial(model.apply, {"params": params}, test, deterministic=True)
        return loss_fn(params, test, None)[1], apply(mutable=["intermediates"])[1]

    sums, sown = evaluate(state.params)
    assert sums["nll"] / sums["tokens"] < 0.3  # 1.9 if it learns nothing
    layer = sown["intermediates"]["decoder"]["layer_0"]["encoder_attention"]
    weights = np.asarray(layer["weights"][0])
    assert set(np.unique(weights)) == {0.0, 1.0} and (weights.sum(-1) == 1).all()


def test_the_sums_are_of_the_loss_alone():
    """Catches a loss in metrics.jsonl that holds the score, and dropout in the baseline."""
    batch = reversing_batch(np.random.default_rng(0), 4, 5)
    model = tiny_model(attention="hard")
    params = random_params(model.init, batch, deterministic=True)
    ours, plain = (make(model, 0.1) for make in (make_translation_loss_fn, make_loss_fn))
    rng = jax.random.key(0)
    (loss, sums), (expected, expected_sums) = jax.jit(
        lambda: (ours(params, batch, rng), plain(params, batch, rng))
    )()
    assert sums["loss"] == expected_sums["loss"] == expected and loss != expected
