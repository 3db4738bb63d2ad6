"""Eight fake devices, in a process of their own, against one: same parameters, one compile.

Run as a script, this file is that process: it prints what the tests look at as JSON.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]
NUM_STEPS, NUM_ROWS = 3, 16


@pytest.fixture(scope="module")
def seen():
    """What the process with eight devices found."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # compiles in half the time
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_eight_devices_give_the_parameters_of_one(seen):
    """Catches a mean over devices of means over tokens: rows hold unequal numbers of them."""
    assert seen["num_devices"] == 8
    assert seen["moved"] > 0.01 and seen["difference"] < 1e-5


def test_accumulation_on_eight_devices_gives_the_parameters_of_one(seen):
    """Catches parts of a batch that are cut across the rows of a device and lose some."""
    assert seen["difference_accumulated"] < 1e-5


def test_step_compiles_once(seen):
    """Catches a second compile, at the second step or after a restore, by other types or places."""
    assert seen["compiles"] == {"fresh": 1, "after steps": 1, "after restore": 1}


def test_every_device_holds_its_rows_and_all_parameters(seen):
    """Catches a batch that is copied to every device, which would do the work eight times."""
    assert seen["rows of a device"] == NUM_ROWS // 8
    assert seen["parameters are replicated"]


def test_batch_that_cannot_be_dealt_out_is_refused():
    """Catches an empty batch found deep in the compiler instead of a sentence with the way out."""
    from transformer.parallel import DataParallel

    parallel = DataParallel()
    rows = parallel.num_devices * 2
    assert (
        parallel.rows_per_batch(batch_tokens=rows * 10 + 9, row_length=10, accumulate_steps=2)
        == rows
    )
    with pytest.raises(ValueError, match=f"raise it to {rows * 10}"):
        parallel.rows_per_batch(batch_tokens=rows * 10 - 1, row_length=10, accumulate_steps=2)


def main():
    import jax
    import numpy as np
    import optax
    from tiny import make_batch, sentence, tiny_model

    from transformer.checkpoint import Checkpoints
    from transformer.parallel import DataParallel
    from transformer.training import init_state, make_loss_fn, make_train_step

    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 8, (NUM_STEPS, NUM_ROWS, 2))
    rows = [[[tuple(sentence(rng, n) for n in pair)] for pair in step] for step in lengths]
    batches = [make_batch(step, 7, 7) for step in rows]
    model = tiny_model(num_layers=1)
    # An ε that is not tiny: Adam then does not blow rounding errors up to whole steps.
    optimizer, loss_fn = optax.adam(0.01, eps=1e-3), make_loss_fn(model, 0.1)

    def train(parallel, accumulate_steps=1):
        state = parallel.jit_init(lambda: init_state(model, optimizer, batches[0], 0))()
        start = jax.device_get(state.params)
        train_step = parallel.jit_train_step(
            make_train_step(loss_fn, optimizer, 0, accumulate_steps)
        )
        compiles = []
        for batch in batches:
            state, _ = jax.block_until_ready(train_step(state, parallel.put_batch(batch)))
            compiles.append(train_step._cache_size())
        return start, state, train_step, compiles

    def difference(a, b):
        largest = jax.tree.map(lambda x, y: np.abs(x - y).max(), *jax.device_get((a, b)))
        return float(max(jax.tree.leaves(largest)))

    many = DataParallel()
    start, state, train_step, compiles = train(many)
    _, of_one, _, _ = train(DataParallel(jax.devices()[:1]))
    _, accumulated, _, _ = train(many, accumulate_steps=2)
    report = {
        "num_devices": many.num_devices,
        "moved": difference(start, state.params),
        "difference": difference(state.params, of_one.params),
        "difference_accumulated": difference(accumulated.params, of_one.params),
        "parameters are replicated": all(
            leaf.sharding.is_fully_replicated for leaf in jax.tree.leaves(state.params)
        ),
        "rows of a device": len(many.put_batch(batches[0]).inputs.addressable_shards[0].data),
    }
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(folder)
        checkpoints.save(state)
        checkpoints.wait()
        restored = checkpoints.restore(state)
        checkpoints.close()
    jax.block_until_ready(train_step(restored, many.put_batch(batches[0])))
    counts = compiles[0], compiles[-1], train_step._cache_size()
    report["compiles"] = dict(zip(("fresh", "after steps", "after restore"), counts, strict=True))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
