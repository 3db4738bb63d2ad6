"""The paper's schedule and Adam."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from transformer.config import OptimizerConfig
from transformer.training.optimizer import make_optimizer, make_schedule


def test_schedule_is_equation_3():
    """Catches a schedule that is off by one step, or lacks d_model^-0.5."""
    steps = np.array([1, 2000, 4000, 100_000])
    rates = make_schedule(OptimizerConfig(warmup_steps=4000), d_model=512)(steps - 1)
    expected = 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5)
    np.testing.assert_allclose(rates, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("settings", "expected"),  # the rates at the steps 50, 100, 200, 300, 400
    [
        ({}, [0.25, 0.5, 0.5 / 2**0.5, 0.5 / 3**0.5, 0.25]),
        ({"decay_steps": 300}, [0.25, 0.5, 0.275, 0.05, 0.05]),
        ({"decay": "linear", "decay_steps": 300, "final_share": 0.2}, [0.25, 0.5, 0.3, 0.1, 0.1]),
        ({"decay": "wsd", "decay_steps": 300, "final_share": 0.2}, [0.25, 0.5, 0.5, 0.1, 0.1]),
    ],
)
def test_a_decay_begins_at_the_peak_after_the_warmup(settings, expected):
    """Catches a peak that is scaled by d_model, and a decay that is measured from step 0, ends
    elsewhere or at 0, or begins too early."""
    config = OptimizerConfig(warmup_steps=100, peak_learning_rate=0.5, **settings)
    rates = make_schedule(config, 512)(np.array([50, 100, 200, 300, 400]) - 1)
    np.testing.assert_allclose(rates, expected, rtol=1e-5)


def train(gradients, **changes):
    """The parameters [2] that these gradients make of zeros."""
    optimizer = make_optimizer(OptimizerConfig(warmup_steps=10, **changes), d_model=4)
    params, update = jnp.zeros(2), jax.jit(optimizer.update)
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = update(jnp.array(gradient), state, params)
        params = optax.apply_updates(params, updates)
    return np.asarray(params)


def test_adam_by_hand():
    """Catches another β or ε than the configuration's, and a missing correction of the bias."""
    gradients = np.array([[0.3, -7.0], [0.1, 2.0], [-0.4, 0.0]])
    params, first, second = np.zeros(2), np.zeros(2), np.zeros(2)
    for step, gradient in enumerate(gradients, start=1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.98 * second + 0.02 * gradient**2
        rate = 4**-0.5 * step * 10**-1.5
        denominator = np.sqrt(second / (1 - 0.98**step)) + 1e-9
        params -= rate * first / (1 - 0.9**step) / denominator
    np.testing.assert_allclose(train(gradients), params, rtol=1e-4)


def test_clipping_bounds_the_norm_and_keeps_the_direction():
    """Catches clipping of each entry, and clipping of gradients that are short enough."""
    clipped = train([[30.0, 40.0], [0.3, 0.4]], clip_norm=5.0)
    np.testing.assert_allclose(clipped, train([[3.0, 4.0], [0.3, 0.4]]), rtol=1e-5)
    assert not np.allclose(clipped, train([[30.0, 40.0], [0.3, 0.4]]))


PARAMS = {
    "table": np.full((300, 130), 0.5, np.float32),
    "layer_0": {
        "inner": {"kernel": np.eye(130, 140, dtype=np.float32), "bias": np.zeros(140, np.float32)}
    },
}
RNG = np.random.default_rng(0)
GRADIENTS = jax.tree.map(lambda x: RNG.normal(size=x.shape).astype(np.float32), PARAMS)


def one_update(name, **changes):
    """The change that the first update makes, at a rate of 1, and the optimizer's state."""
    config = OptimizerConfig(name=name, warmup_steps=1, peak_learning_rate=1.0, **changes)
    optimizer = make_optimizer(config, d_model=4)
    return jax.jit(optimizer.update)(GRADIENTS, optimizer.init(PARAMS), PARAMS)


def rms(x):
    return np.sqrt(np.square(x).mean())


def test_each_optimizer_is_the_one_of_its_name():
    """Catches Lion's first update if it is more than a sign; with Adafactor second moments as large
    as the matrices, and steps of an absolute size; with Muon an embedding that is orthogonalised,
    and updates of another size than Adam's."""
    signs = jax.tree.map(lambda gradient: -np.sign(gradient), GRADIENTS)
    jax.tree.map(np.testing.assert_array_equal, one_update("lion")[0], signs)
    updates, state = one_update("adafactor")
    size, whole = (sum(x.size for x in jax.tree.leaves(tree)) for tree in (state, PARAMS))
    assert size < whole / 50
    np.testing.assert_allclose(rms(updates["table"]), 0.5, rtol=0.05)  # as the table's elements
    (updates, _), (adam, _) = one_update("muon"), one_update("adam")
    np.testing.assert_array_equal(updates["table"], adam["table"])
    kernel = updates["layer_0"]["inner"]["kernel"]
    values = np.linalg.svd(kernel, compute_uv=False)
    assert values.max() < 2 * values.min()  # a random matrix of this shape: more than 20 times
    np.testing.assert_allclose(rms(kernel), 0.2, rtol=0.2)


@pytest.mark.parametrize("name", ["adam", "adafactor", "lion", "muon"])
def test_every_optimizer_decays_matrices_alone_by_the_rate(name):
    """Catches a decay that ignores the learning rate, as optax.adafactor's does, or biases."""
    plain, decayed = one_update(name)[0], one_update(name, weight_decay=0.25)[0]
    change = jax.tree.map(np.subtract, decayed, plain)
    np.testing.assert_allclose(change["table"], -0.125, atol=1e-5)
    inner = change["layer_0"]["inner"]
    np.testing.assert_allclose(inner["kernel"], -0.25 * np.eye(130, 140), atol=1e-5)
    assert not inner["bias"].any()
