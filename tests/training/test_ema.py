"""A moving average of the parameters: it is what is evaluated, saved, restored and adapted."""

import jax
import numpy as np
import pytest

from tests.training.test_trainer import assert_same_run, no_pictures, run_in_folder  # noqa: F401
from transformer.checkpoint.checkpoints import load_checkpoint
from transformer.evaluation import plots


def run(path, ema_decay=0.5, num_train_steps=6, **training):
    values = {"optimizer.ema_decay": ema_decay}
    return run_in_folder(path, values, num_train_steps=num_train_steps, **training)


def params_of(trainer, checkpoint="last"):
    return load_checkpoint(trainer.workdir, trainer.config, checkpoint).params


def kernel_of(params):
    return np.asarray(params["Dense_0"]["kernel"])


def losses_of(trainer):
    """The validation losses that were logged, the first first."""
    records = trainer.workdir.read_metrics()
    return [r["validation_loss"] for r in records if "validation_loss" in r]


@pytest.fixture(scope="module")
def averaged(tmp_path_factory):
    """The trainer of a run with the average."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "render", lambda *_, **__: b"")
        return run(tmp_path_factory.mktemp("averaged"))


def test_the_average_is_what_is_read_and_validated(averaged, tmp_path):
    """Catches parameters of training under the name of the average, another decay, and a "best"
    checkpoint that was chosen by other parameters than those it is read as."""
    plain = run(tmp_path, 0.0, checkpoint_every=1, keep_checkpoints=6)
    mean = kernel_of(averaged.train_step.init_state().params)
    for n in range(1, 7):
        decay, kernel = min(0.5, n / (9 + n)), kernel_of(params_of(plain, n))
        mean = decay * mean + (1 - decay) * kernel
    params = params_of(averaged)
    np.testing.assert_allclose(kernel_of(params), mean, rtol=1e-5)
    assert np.abs(mean - kernel).max() > 0.01
    expected, _ = averaged.task.evaluate(jax.device_put(params, averaged.parallel.replicated))
    assert losses_of(averaged)[-1] == pytest.approx(expected["validation_loss"], rel=1e-6)


def test_stopped_and_resumed_equals_undisturbed(averaged, tmp_path):
    """Catches an average that begins anew after a resumption."""
    run(tmp_path, num_train_steps=3)
    assert_same_run(run(tmp_path), averaged)


def test_a_start_from_another_run_takes_its_average(averaged, tmp_path):
    """Catches an average of random parameters beside those of the other run, and a checkpoint of
    adapters whose average cannot be merged with the base."""
    former = str(averaged.workdir.path)
    started = run(tmp_path / "started", num_train_steps=1, init_from=former)
    assert losses_of(started)[0] == pytest.approx(losses_of(averaged)[-1], rel=1e-6)
    adapted = run(tmp_path / "adapted", init_from=former, lora_rank=1)
    change = kernel_of(params_of(adapted)) - kernel_of(params_of(averaged))
    assert np.abs(change).max() > 1e-4
