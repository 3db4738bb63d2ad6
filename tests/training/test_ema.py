"""A moving average of the parameters: it is what is evaluated, saved, restored and adapted."""

import jax
import numpy as np
import pytest

from tests.training.test_trainer import assert_same_run, no_pictures, run_in_folder  # noqa: F401
from transformer.checkpoint.checkpoints import load_checkpoint
from transformer.evaluation import plots


def run(path, ema_decay=0.5, **training):
    values = {"optimizer.ema_decay": ema_decay}
    return run_in_folder(path, values, **({"num_train_steps": 6} | training))


def params_of(trainer, checkpoint="last"):
    return load_checkpoint(trainer.workdir, trainer.config, checkpoint).params


def kernel_of(trainer, checkpoint="last"):
    return params_of(trainer, checkpoint)["Dense_0"]["kernel"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """(the trainer of a run with the average, its parameters after each of six updates)."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "render", lambda *_, **__: b"")
        folder = tmp_path_factory.mktemp("ema")
        plain = run(folder / "plain", 0.0, checkpoint_every=1, keep_checkpoints=6)
        return run(folder / "averaged"), [kernel_of(plain, step) for step in range(1, 7)]


def test_the_average_is_what_is_read_and_validated(runs):
    """Catches parameters of training under the name of the average, another decay, and a "best"
    checkpoint that was chosen by other parameters than those it is read as."""
    trainer, plain = runs
    decays = [min(0.5, n / (9 + n)) for n in range(1, 7)]
    mean = np.asarray(trainer.train_step.init_state().params["Dense_0"]["kernel"])
    for decay, kernel in zip(decays, plain, strict=True):
        mean = decay * mean + (1 - decay) * kernel
    np.testing.assert_allclose(kernel_of(trainer), mean, rtol=1e-5)
    assert np.abs(mean - plain[-1]).max() > 0.01
    params = jax.device_put(params_of(trainer), trainer.parallel.replicated)
    expected = trainer.task.evaluate(params)[0]
    logged = [r for r in trainer.workdir.read_metrics() if "validation_loss" in r]
    assert logged[-1]["validation_loss"] == pytest.approx(expected["validation_loss"], rel=1e-6)


def test_stopped_and_resumed_equals_undisturbed(runs, tmp_path):
    """Catches an average that begins anew after a resumption."""
    run(tmp_path, num_train_steps=3)
    assert_same_run(run(tmp_path), runs[0])


def test_a_warm_start_begins_the_average_too(runs, tmp_path):
    """Catches an average of random parameters beside those of the other run."""
    started = run(tmp_path, num_train_steps=1, init_from=str(runs[0].workdir.path))
    (first, *_), (*_, last) = started.workdir.read_metrics(), runs[0].workdir.read_metrics()
    assert first["step"] == 0 and last["step"] == 6
    assert first["validation_loss"] == pytest.approx(last["validation_loss"], rel=1e-6)


def test_adapters_are_averaged_too(runs, tmp_path):
    """Catches a checkpoint of adapters whose average cannot be merged with the base."""
    adapted = run(tmp_path, init_from=str(runs[0].workdir.path), lora_rank=1)
    assert np.abs(kernel_of(adapted) - kernel_of(runs[0])).max() > 1e-4
