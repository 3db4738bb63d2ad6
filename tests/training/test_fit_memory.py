"""accumulate_steps=0: the fewest micro-batches with which the compiled step fits the memory."""

import pytest
from flax import linen as nn

from tests.training.test_trainer import PointBatches, PointTask, make_config
from transformer.training import automatic
from transformer.training.automatic import GIB, make_trainer, step_memory
from transformer.workdir import WorkDir


class Wide(nn.Module):
    @nn.compact
    def __call__(self, batch, *, deterministic):
        return nn.Dense(1)(nn.tanh(nn.Dense(64)(batch.x)))[:, 0]


class WideTask(PointTask):
    """A step whose memory is that of its activations."""

    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel, workdir)
        self.model, self.training_batches = Wide(), PointBatches()
        self.training_batches.rows_per_batch = 512


def fit(path, **training):
    """(the trainer, the choices) of a run of WideTask."""
    config = make_config(**training)
    config.task = "images"
    return make_trainer(config, WorkDir(path), None, WideTask)


@pytest.fixture
def limit(monkeypatch):
    """Gives the devices so many bytes."""
    return lambda limit: monkeypatch.setattr(automatic, "_memory_limit", lambda: limit)


@pytest.fixture(scope="module")
def needed(tmp_path_factory):
    """{number of micro-batches: bytes on each device}."""
    path = tmp_path_factory.mktemp("fit")
    return {n: step_memory(fit(path, accumulate_steps=n)[0].train_step) for n in (1, 2, 4)}


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_fewest_that_fit_are_chosen(needed, parts, tmp_path, limit):
    """Catches a number that does not fit, and more passes than the memory asks for."""
    assert needed[1] > needed[2] > needed[4]
    limit(needed[parts] + 1)
    trainer, choices = fit(tmp_path, accumulate_steps=0)
    assert choices.config.training.accumulate_steps == parts
    assert trainer.config == choices.config
    assert step_memory(trainer.train_step) == needed[parts]
    assert "GiB on each device" in choices.reasons["training.accumulate_steps"]


def test_without_a_limit_there_is_one_pass(tmp_path):
    """Catches a CPU, whose memory is not known, that divides its batches or fails."""
    assert fit(tmp_path, accumulate_steps=0)[0].config.training.accumulate_steps == 1


def test_what_can_never_fit_is_refused(tmp_path, limit):
    """Catches a search without an end."""
    limit(1e-9 * GIB)
    with pytest.raises(ValueError, match=r"still needs .* GiB of the 1e-09 GiB on each device"):
        fit(tmp_path, accumulate_steps=0)
