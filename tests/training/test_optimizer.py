"""The paper's schedule and Adam."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

from transformer.config import OptimizerConfig
from transformer.training.optimizer import make_optimizer, make_schedule


def test_schedule_is_equation_3():
    """Catches a schedule that is off by one step, or lacks d_model^-0.5."""
    steps = np.array([1, 2000, 4000, 100_000])
    ours = make_schedule(OptimizerConfig(warmup_steps=4000), d_model=512)(steps - 1)
    expected = 512**-0.5 * np.minimum(steps**-0.5, steps * 4000**-1.5)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_peak_is_reached_at_the_end_of_the_warmup():
    """Catches a peak that is scaled by d_model too, or reached at another step."""
    config = OptimizerConfig(warmup_steps=100, peak_learning_rate=0.005)
    rates = np.asarray(make_schedule(config, 512)(np.array([50, 99, 100, 101, 400]) - 1))
    np.testing.assert_allclose(rates[2], 0.005, rtol=1e-5)
    assert rates.max() == rates[2]
    np.testing.assert_allclose([rates[0], rates[4]], 0.0025, rtol=1e-5)


def test_cosine_falls_from_the_peak_to_a_tenth_after_the_warmup():
    """Catches a decay that is measured from step 0, and one that ends at 0."""
    config = OptimizerConfig(warmup_steps=100, peak_learning_rate=0.5, decay_steps=300)
    rates = make_schedule(config, 512)(np.array([50, 100, 200, 300, 400]) - 1)
    np.testing.assert_allclose(rates, [0.25, 0.5, 0.275, 0.05, 0.05], rtol=1e-5)


def test_only_matrices_decay():
    """Catches weight decay of biases and of the scales of norms."""
    config = OptimizerConfig(warmup_steps=1, weight_decay=0.1)
    optimizer = make_optimizer(config, d_model=4)
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2)}
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    assert (updates["kernel"] < 0).all() and (updates["bias"] == 0).all()


def train(gradients, **changes):
    """The parameters [2] that these gradients make of zeros."""
    optimizer = make_optimizer(OptimizerConfig(warmup_steps=10, **changes), d_model=4)

    @jax.jit
    def update(params, state, gradient):
        step, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, step), state

    params = jnp.zeros(2)
    state = optimizer.init(params)
    for gradient in gradients:
        params, state = update(params, state, jnp.array(gradient))
    return np.asarray(params)


def test_first_update_is_not_wasted():
    """Catches a schedule that starts with a rate of 0; Adam's first step is ± the rate."""
    rate = 4**-0.5 * 10**-1.5
    np.testing.assert_allclose(train([[0.3, -7.0]]), [-rate, rate], rtol=1e-5)


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
