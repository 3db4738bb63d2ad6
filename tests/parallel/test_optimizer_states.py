"""Optimizers with states of other shapes than their parameters', on a mesh against one device."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.rings import others_long
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.train_state import TrainState
from transformer.config import Config, MeshConfig, OptimizerConfig
from transformer.parallel.mapping import make_parallel
from transformer.training.optimizer import make_optimizer
from transformer.training.steps import make_train_step

pytestmark = pytest.mark.skipif(len(jax.devices()) != 4, reason="needs four devices")

D, F = 128, 256  # Adafactor factors what has two dimensions of 128 and more
NUM_STEPS = 3


def loss_fn(params, batch, rng):
    """The squared error of a feed-forward layer."""
    inner, outer = params["layer_0"]["inner"], params["layer_0"]["outer"]
    found = jnp.tanh(batch["x"] @ inner["kernel"] + inner["bias"]) @ outer["kernel"]
    loss = jnp.square(found - batch["y"]).sum()
    return loss, {"loss": loss, "tokens": jnp.asarray(found.size, jnp.float32)}


def make_batch(step):
    x, y = np.random.default_rng(step).normal(size=(2, 8, D)).astype(np.float32)
    return {"x": x, "y": y}


def train(name, mesh, folder=None):
    """(the state after NUM_STEPS, bytes on a device); folder: where it is saved on the way."""
    settings = OptimizerConfig(
        name=name, warmup_steps=1, peak_learning_rate=0.01, weight_decay=0.1, ema_decay=0.5
    )
    optimizer = make_optimizer(settings, D)
    devices = jax.devices()[:1] if mesh == MeshConfig(1, 1, 1) else None
    parallel = make_parallel(Config(mesh=mesh), devices)

    def init():
        rngs, shapes = jax.random.split(jax.random.key(0), 3), [(D, F), (F,), (F, D)]
        a, b, c = (0.1 * jax.random.normal(*pair) for pair in zip(rngs, shapes, strict=True))
        params = {"layer_0": {"inner": {"kernel": a, "bias": b}, "outer": {"kernel": c}}}
        return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))

    abstract = parallel.abstract(init)
    step = parallel.map_step(partial(make_train_step, loss_fn, optimizer, 0, 1), abstract)
    state = parallel.init(init)
    for number in range(NUM_STEPS):
        if folder and number == NUM_STEPS - 1:
            checkpoints = Checkpoints(folder, keep=1)
            checkpoints.save(state)
            state = checkpoints.restore(abstract)
            checkpoints.close()
        state, _ = step(state, parallel.put_batch(make_batch(number)))
    return jax.device_get(state), parallel.bytes_per_device(abstract)


@pytest.mark.parametrize("sizes", [(1, 2, 2), (4, 1, 1)])
@pytest.mark.parametrize("name", others_long(["adafactor", "lion", "muon"], "muon"))
def test_a_mesh_gives_the_state_of_one_device(name, sizes, tmp_path):
    """Catches rows and columns that are mixed up by sharding, and a state that is not restored."""
    alone, whole = train(name, MeshConfig(1, 1, 1))
    divided, share = train(name, MeshConfig(*sizes), tmp_path)
    assert share < whole / 3
    for ours, theirs in zip(*map(jax.tree.leaves, (divided, alone)), strict=True):
        is_close = np.isclose(ours, theirs, rtol=1e-3, atol=1e-5)
        assert is_close.mean() > 0.999  # the sign of a rounding error may move a weight by Lion
