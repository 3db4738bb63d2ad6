"""accumulate_steps=0: the fewest micro-batches with which the compiled step fits the memory."""

import pytest
from flax import linen as nn

from tests.training.test_trainer import PointBatches, PointTask, make_config
from transformer.training import automatic
from transformer.training.automatic import GIB, make_trainer
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
    """(the trainer, the choices)."""
    config = make_config(**training)
    config.task = "images"
    return make_trainer(config, WorkDir(path), None, WideTask)


def test_the_fewest_that_fit_are_chosen(tmp_path, monkeypatch):
    """Catches a number that does not fit, more passes than the memory asks for, a search without an
    end, and a CPU, whose memory is not known, that divides its batches or fails."""
    steps = {n: fit(tmp_path, accumulate_steps=n)[0].train_step for n in (1, 2, 4)}
    needed = {n: sum(step.memory()) for n, step in steps.items()}
    assert needed[1] > needed[2] > needed[4]
    assert fit(tmp_path, accumulate_steps=0)[0].config.training.accumulate_steps == 1
    for parts, size in needed.items():
        monkeypatch.setattr(automatic, "_memory_limit", lambda size=size: size + 1)
        trainer, choices = fit(tmp_path, accumulate_steps=0)
        assert choices.config.training.accumulate_steps == parts
        assert trainer.config == choices.config
        assert sum(trainer.train_step.memory()) == size
        assert "GiB on each device" in choices.reasons["training.accumulate_steps"]
    monkeypatch.setattr(automatic, "_memory_limit", lambda: 1e-9 * GIB)
    with pytest.raises(ValueError, match=r"still needs .* GiB of the 1e-09 GiB on each device"):
        fit(tmp_path, accumulate_steps=0)
