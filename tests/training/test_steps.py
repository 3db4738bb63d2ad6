"""The train step on fake losses; batches made ahead."""

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

SGD = optax.sgd(0.1)


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


def take_step(loss_fn, params, batch, *, step=0, seed=0, accumulate_steps=1, optimizer=SGD):
    """(state before, state after, sums) of one step."""
    state = TrainState(np.int32(step), params, optimizer.init(params))
    train_step = make_train_step(loss_fn, optimizer, seed, accumulate_steps)
    return state, *jax.jit(train_step)(state, batch)


def linear_step(batch, **options):
    """(params, sums) after one plain gradient step."""
    params = np.ones((3, 7), np.float32)
    _, state, sums = take_step(linear_loss_fn, params, batch, optimizer=optax.sgd(1.0), **options)
    assert not np.allclose(state.params, params)
    return state.params, sums


def test_update_is_the_mean_over_tokens_however_they_are_divided(batch):
    """Catches a mean over parts of unequal numbers of tokens, rows lost or seen twice, and an
    update that grows with the batch: the same rows twice are the same mean."""
    whole, split = linear_step(batch), linear_step(batch, accumulate_steps=4)
    assert split[1]["tokens"] == 20
    for one, other in zip(jax.tree.leaves(split), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    twice = jax.tree.map(lambda x: np.concatenate([x, x]), batch)
    np.testing.assert_allclose(linear_step(twice)[0], whole[0], atol=1e-6)


def noisy_loss_fn(params, batch, rng):
    """A loss whose gradient is its weight; `draw` shows which key it got."""
    loss, tokens = params * batch["weight"].sum(), batch["weight"].sum()
    return loss, {"loss": loss, "tokens": tokens, "draw": jax.random.uniform(rng)}


def draw(step, **options):
    batch = {"weight": np.ones((2, 3), np.float32)}
    _, state, sums = take_step(noisy_loss_fn, np.float32(1), batch, step=step, **options)
    assert state.step == step + 1
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
    batch = {"weight": np.zeros((2, 3), np.float32)}
    _, state, sums = take_step(noisy_loss_fn, np.float32(1), batch)
    assert state.params == 1 and sums["gradient_norm"] == 0


def root_loss_fn(params, batch, rng):
    loss = jnp.sqrt(params)
    return loss, {"loss": loss, "tokens": batch.sum()}


def test_update_that_is_not_finite_is_skipped_and_counted(batch):
    """Catches one bad batch that makes all parameters NaN, sums that pass it on, and a step that
    checks its loss alone: the root is finite at 0, its gradient is not."""
    params = np.ones((3, 7), np.float32)
    spoilt = batch | {"x": np.where(batch["x"] == batch["x"][0, 0, 0], np.nan, batch["x"])}
    for case in (linear_loss_fn, params, spoilt), (root_loss_fn, np.float32(0), np.ones(2)):
        before, after, sums = take_step(*case, step=4, optimizer=optax.adam(0.1))
        jax.tree.map(np.testing.assert_array_equal, after, before.replace(step=5))
        assert float(sums.pop("skipped")) == 1
        assert {float(value) for value in sums.values()} == {0.0}
    assert float(linear_step(batch)[1]["skipped"]) == 0


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

    results = prefetch(make, range(5, 12))
    assert next(results) == 50
    assert three_made.wait(HANGS)
    assert next(results) == 60 and len(made) <= 4
    assert list(results) == [70, 80, 90, 100, 110] and made == list(range(5, 12))
    assert threading.get_ident() not in threads
    assert list(prefetch(str, range(1))) == ["0"]  # fewer than are made ahead
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
