"""The train step on fake losses; batches made ahead."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests.helpers.scripts import HANGS
from transformer.checkpoint.train_state import TrainState
from transformer.model.loss import cross_entropy
from transformer.training.steps import make_train_step, prefetch


def linear_loss_fn(params, batch, rng):
    sums = cross_entropy(batch["x"] @ params, batch["targets"], batch["weights"], 0.1)
    return sums[0], dict(zip(("loss", "nll", "tokens"), sums, strict=True))


@pytest.fixture
def batch():
    """Eight rows with 5, 1, 4, 0, 2, 5, 0 and 3 tokens."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=(8, 5, 3)).astype(np.float32),
        "targets": rng.integers(0, 7, (8, 5)),
        "weights": (np.arange(5) < np.array([[5, 1, 4, 0, 2, 5, 0, 3]]).T).astype(np.float32),
    }


def linear_step(batch, accumulate_steps=1):
    """(params, sums) after one plain gradient step."""
    params, optimizer = np.ones((3, 7), np.float32), optax.sgd(1.0)
    state = TrainState(np.int32(0), params, optimizer.init(params))
    train_step = make_train_step(linear_loss_fn, optimizer, 0, accumulate_steps)
    state, sums = jax.jit(train_step)(state, batch)
    assert not np.allclose(state.params, params)
    return state.params, sums


def test_update_is_the_mean_over_tokens_however_they_are_divided(batch):
    """Catches a mean over parts of unequal numbers of tokens, rows lost or seen twice, and an
    update that grows with the batch: the same rows twice are the same mean."""
    whole, split = linear_step(batch), linear_step(batch, accumulate_steps=4)
    assert split[1]["tokens"] == 20
    for ours, expected in zip(jax.tree.leaves(split), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    twice = jax.tree.map(lambda x: np.concatenate([x, x]), batch)
    np.testing.assert_allclose(linear_step(twice)[0], whole[0], atol=1e-6)


def noisy_loss_fn(params, batch, rng):
    """A loss whose gradient is its weight; `draw` shows which key it got."""
    loss = params * batch["weight"].sum()
    sums = {"loss": loss, "tokens": batch["weight"].sum(), "draw": jax.random.uniform(rng)}
    return loss, sums


@functools.cache
def noisy_step(accumulate_steps=1, seed=0):
    """A compiled step of `noisy_loss_fn`, and the optimizer's state."""
    optimizer = optax.sgd(0.1)
    train_step = make_train_step(noisy_loss_fn, optimizer, seed, accumulate_steps)
    return jax.jit(train_step), optimizer.init(np.float32(1))


def draw(step, accumulate_steps=1, seed=0):
    train_step, opt_state = noisy_step(accumulate_steps, seed)
    state = TrainState(np.int32(step), np.float32(1), opt_state)
    new, sums = train_step(state, {"weight": np.ones((2, 3), np.float32)})
    assert new.step == step + 1
    return float(sums["draw"])


def test_dropout_is_a_function_of_seed_and_step_and_part():
    """Catches noise that repeats each step, or that a resumed run draws anew, and one dropout mask
    for all parts of an accumulated batch."""
    assert draw(3) == draw(3)
    assert len({draw(3), draw(4), draw(3, seed=1)}) == 3
    rng = jax.random.fold_in(jax.random.PRNGKey(0), 3)
    draws = [float(jax.random.uniform(part)) for part in jax.random.split(rng, 2)]
    assert draws[0] != draws[1]
    np.testing.assert_allclose(draw(3, accumulate_steps=2), sum(draws), rtol=1e-6)


def test_a_batch_of_padding_alone_moves_nothing():
    """Catches 0/0 in a batch without a token."""
    train_step, opt_state = noisy_step()
    state = TrainState(np.int32(0), np.float32(1), opt_state)
    new, sums = train_step(state, {"weight": np.zeros((2, 3), np.float32)})
    assert new.params == 1 and sums["gradient_norm"] == 0


def test_update_with_an_infinite_gradient_is_skipped():
    """Catches a step that checks its loss alone: this one is finite at 0, its gradient is not."""

    def loss_fn(params, batch, rng):
        loss = jnp.sqrt(params)
        return loss, {"loss": loss, "tokens": batch.sum()}

    optimizer, params = optax.sgd(0.1), np.float32(0)
    state = TrainState(np.int32(0), params, optimizer.init(params))
    after, sums = jax.jit(make_train_step(loss_fn, optimizer, 0))(state, np.ones(2))
    assert after.params == 0 and sums["skipped"] == 1


def test_update_that_is_not_finite_is_skipped_and_counted(batch):
    """Catches one bad batch that makes all parameters NaN, and sums that pass it on."""
    params, optimizer = np.ones((3, 7), np.float32), optax.adam(0.1)
    state = TrainState(np.int32(4), params, optimizer.init(params))
    train_step = jax.jit(make_train_step(linear_loss_fn, optimizer, 0))
    spoilt = batch | {"x": np.where(batch["x"] == batch["x"][0, 0, 0], np.nan, batch["x"])}
    after, sums = train_step(state, spoilt)
    jax.tree.map(np.testing.assert_array_equal, after, state.replace(step=5))
    assert float(sums.pop("skipped")) == 1
    assert {float(value) for value in sums.values()} == {0.0}
    good, sums = train_step(after, batch)
    assert float(sums["skipped"]) == 0
    assert not np.allclose(good.params, params)


def test_order_is_kept_and_work_is_done_ahead_by_another_thread():
    """Catches a loop that makes each batch only when the device has come to ask for it, and a
    thread that fills the memory with an epoch."""
    made, threads, three_made = [], set(), threading.Event()

    def make(step):
        made.append(step)
        threads.add(threading.get_ident())
        if len(made) == 3:  # the first, and two ahead
            three_made.set()
        return step * 10

    results = prefetch(make, range(5, 12), num_ahead=2)
    assert next(results) == 50
    assert three_made.wait(HANGS)
    assert next(results) == 60 and len(made) <= 4
    assert list(results) == [70, 80, 90, 100, 110] and made == list(range(5, 12))
    assert threading.get_ident() not in threads
    assert list(prefetch(str, range(1), num_ahead=4)) == ["0"]  # fewer than are made ahead
    assert list(prefetch(str, range(0))) == []


def test_error_comes_where_its_batch_would_have_come():
    """Catches a thread that dies in silence and leaves the loop waiting for ever."""

    def make(step):
        if step == 2:
            raise ValueError("step 2")
        return step

    results = prefetch(make, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="step 2"):
        next(results)
