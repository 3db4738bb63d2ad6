"""The training loop, with a task so small that its step compiles in a second."""

import json
import signal
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

import transformer
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.config import Config, ModelConfig, OptimizerConfig, TrainingConfig
from transformer.evaluation import plots
from transformer.exit_codes import DIVERGED, DONE, RESUMABLE
from transformer.parallel import hosts
from transformer.parallel.stopping import Stopping
from transformer.tasks.task import Task
from transformer.training import run as run_module
from transformer.training import trainer as trainer_module
from transformer.training.meter import Meter
from transformer.training.trainer import Trainer
from transformer.workdir import WorkDir


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    """Curves take longer to draw than these runs to train."""
    monkeypatch.setattr(plots, "render", lambda *_, **__: b"")


class PointBatch(NamedTuple):
    x: np.ndarray  # [B, 2]
    y: np.ndarray  # [B], their sums
    weights: np.ndarray  # [B], 0 in empty rows


class PointBatches:
    rows_per_batch = 6
    batches_per_epoch = 2
    bad_steps = ()

    def __getitem__(self, step):
        x = np.random.default_rng(step).normal(size=(self.rows_per_batch, 2)).astype(np.float32)
        weights = np.ones(self.rows_per_batch, np.float32)
        return PointBatch(x * (np.nan if step in self.bad_steps else 1), x.sum(1), weights)


class Linear(nn.Module):
    @nn.compact
    def __call__(self, batch, *, deterministic):
        return nn.Dense(1)(batch.x)[:, 0]


class PointTask(Task):
    def __init__(self, config, parallel, workdir):
        super().__init__(config, parallel, workdir)
        self.model = Linear()
        self.training_batches, self.validation_batches = PointBatches(), PointBatches()

    def loss_fn(self, params, batch, rng):
        found = self.model.apply({"params": params}, batch, deterministic=rng is None)
        loss = (jnp.square(found - batch.y) * batch.weights).sum()
        return loss, {"loss": loss, "tokens": batch.weights.sum()}


def make_config(**training):
    training = dict(num_train_steps=5, eval_every=3, checkpoint_every=20, log_every=1) | training
    return Config(
        model=ModelConfig(d_model=16, num_heads=4),
        optimizer=OptimizerConfig(warmup_steps=2, peak_learning_rate=0.5),
        training=TrainingConfig(**training),
    )


def make_trainer(path, stopping=None, on_report=None, **training):
    return Trainer(make_config(**training), WorkDir(path), stopping, PointTask, on_report)


def run_in_folder(path, values=None, **training):
    """Trains the task in a work directory that can be opened again; returns the trainer."""
    config = make_config(**training).with_values({"task": "images", **(values or {})})
    workdir = WorkDir(path)  # without a vocabulary
    trainer = Trainer(config, workdir, task_type=PointTask)
    workdir.path.mkdir(exist_ok=True)
    workdir.save_config(config)
    assert trainer.run() == DONE
    trainer.close()
    return trainer


def test_a_task_is_learnt_and_logged(tmp_path):
    """Catches a metric that is not logged or reported, and a best checkpoint that is not."""
    reports = []
    trainer = make_trainer(
        tmp_path, num_train_steps=60, eval_every=20, log_every=20,
        on_report=lambda step, metrics: reports.append({"step": step} | metrics),
    )  # fmt: skip
    assert trainer.run() == DONE and trainer.step == 60
    records = trainer.workdir.read_metrics()
    times = [record.pop("time") for record in records]
    assert reports == records and times == sorted(times)
    rates = {r["step"]: r["learning_rate"] for r in records if "learning_rate" in r}
    assert list(rates) == [1, 20, 40, 60]
    assert rates[1] == pytest.approx(0.25)  # half of the peak: the first of two steps of warm-up
    scores = {r["step"]: r["validation_loss"] for r in records if "validation_loss" in r}
    assert scores[60] < scores[20] < records[0]["loss"]
    assert trainer.checkpoints.best_step() == min(scores, key=scores.get)
    kernel = trainer.checkpoints.load("best").params["Dense_0"]["kernel"]
    np.testing.assert_allclose(kernel, [[1], [1]], atol=0.2)


def test_another_schedule_is_the_same_program(tmp_path):
    """Catches a step that is compiled anew once the steps of a run are known, or goes on by the
    schedule that it was compiled with."""
    trainer = make_trainer(tmp_path)
    step, batches = trainer.train_step, trainer.task.training_batches
    for peak in (0.5, 0.25):
        trainer.take_schedule(trainer.config.with_values({"optimizer.peak_learning_rate": peak}))
        begun = step.init_state()
        before = float(begun.params["Dense_0"]["bias"][0])
        state, _ = step(begun, step.make_batch(batches, 0))
        learnt = abs(float(state.params["Dense_0"]["bias"][0]) - before)
        assert learnt == pytest.approx(peak / 2, rel=1e-4)  # Adam's first update is the rate
    assert step._mapped._cache_size() == 1


def test_losses_are_means_over_real_rows(tmp_path):
    """Catches a mean over the 8 rows to which four devices fill up the 6 of a batch."""
    trainer, batches = make_trainer(tmp_path, num_train_steps=1), PointBatches()

    def squared_error(params, batches):
        dense = jax.device_get(params["Dense_0"])
        errors = [b.x @ dense["kernel"][:, 0] + dense["bias"] - b.y for b in batches]
        return pytest.approx(np.square(errors).mean(), rel=1e-5)

    fresh = trainer.train_step.init_state().params
    trainer.run()
    training, validation = trainer.workdir.read_metrics()
    trained = trainer.checkpoints.load("last").params
    assert training["loss"] == squared_error(fresh, [batches[0]])
    assert validation["validation_loss"] == squared_error(trained, [batches[0], batches[1]])


def assert_same_run(*trainers):
    names = "step", "loss", "validation_loss"
    records = [trainer.workdir.read_metrics() for trainer in trainers]
    logs = [[[record.get(name) for name in names] for record in each] for each in records]
    assert logs[0] == logs[1]
    params = (trainer.checkpoints.load("last").params for trainer in trainers)
    jax.tree.map(np.testing.assert_array_equal, *params)


def test_a_run_that_a_signal_stopped_is_resumed(tmp_path):
    """Catches a resumption that repeats or loses a batch, or a stop that saves nothing."""
    whole, stopping = make_trainer(tmp_path / "whole"), Stopping(0)
    assert whole.run() == DONE and whole.checkpoints.steps() == [3, 5]

    def send_signal_in_step_2(step, metrics):
        stopping.signal = signal.SIGTERM if step == 2 else None

    stopped = make_trainer(tmp_path / "stopped", stopping, send_signal_in_step_2)
    assert stopped.run() == RESUMABLE and stopped.checkpoints.steps() == [2]
    resumed = make_trainer(tmp_path / "stopped")
    assert resumed.run() == DONE
    assert_same_run(resumed, whole)


def test_a_host_stops_when_all_know_that_one_was_told_to(tmp_path, monkeypatch):
    """Catches a host that was told to stop and leaves the others waiting, or tells them nothing."""
    several = SimpleNamespace(process_count=lambda: 2, tree=jax.tree)
    monkeypatch.setattr(trainer_module, "jax", several)
    stopping, votes = Stopping(0), []
    stopping.signal = signal.SIGTERM
    trainer = make_trainer(tmp_path, stopping)

    def sum_that_comes_late(vote):
        votes.append(vote)
        return np.float32(len(votes) == 3)

    trainer.parallel.sum_over_hosts = sum_that_comes_late
    assert trainer.run() == RESUMABLE
    assert trainer.checkpoints.steps() == [3] and votes == [True] * 3


def test_another_host_than_the_first_writes_checkpoints_alone(tmp_path, monkeypatch):
    """Catches records, reports and settings that every host writes over those of the others."""

    def written():
        files = set(tmp_path.rglob("*")) - set((tmp_path / "checkpoints").rglob("*"))
        return {file: file.stat().st_mtime_ns for file in files if file.is_file()}

    options = {"task_type": PointTask, "verbose": False}
    transformer.train(make_config(num_train_steps=1), tmp_path, **options)
    before, second = written(), SimpleNamespace(process_index=lambda: 1, process_count=lambda: 1)
    monkeypatch.setattr(run_module, "jax", second)
    monkeypatch.setattr(hosts, "wait_until", lambda is_true: True)  # for what the first writes
    transformer.train(make_config(num_train_steps=2), tmp_path, on_report=pytest.fail, **options)
    assert (tmp_path / "checkpoints" / "2").exists()
    assert written() == before


@pytest.mark.parametrize("fails", [False, True])
def test_an_evaluation_that_was_cut_short_is_made_up_for(fails, tmp_path):
    """Catches an evaluation that goes on after a signal for longer than a preempted machine has, a
    checkpoint that is written after its evaluation, and so never if that fails, and a resumption
    that continues without the score of the step at which it stopped."""
    stopping, batches = Stopping(0), []
    stopped = make_trainer(tmp_path, stopping)
    step = stopped.task._eval_step

    def interrupt(params, batch):
        assert not fails, "no such metric"
        batches.append(batch)
        stopping.signal = signal.SIGTERM
        return step(params, batch)

    stopped.task._eval_step = interrupt
    with pytest.raises(AssertionError, match="no such metric") if fails else nullcontext():
        assert stopped.run() == RESUMABLE and len(batches) == 1
    stopped.checkpoints.close()
    resumed = make_trainer(tmp_path)
    assert resumed.run() == DONE and resumed.first_step == 3
    records = resumed.workdir.read_metrics()
    assert [r["step"] for r in records if "validation_loss" in r] == [3, 5]
    assert resumed.checkpoints.best_step() in (3, 5)


def test_records_tell_how_much_training_there_was_and_starts_with_what(tmp_path):
    """Catches counts that begin anew at each start, and a run whose versions nobody knows."""
    for num_steps in (2, 5):
        trainer = make_trainer(tmp_path, num_train_steps=num_steps)
        assert trainer.run() == DONE
    records = [r for r in trainer.workdir.read_metrics() if "loss" in r]
    names = "target_tokens", "epoch", "seconds", "device_hours"
    tokens, epochs, *times = ([record[name] for record in records] for name in names)
    assert tokens == [6, 12, 18, 24, 30] and epochs == [0.5, 1.0, 1.5, 2.0, 2.5]
    assert all(values == sorted(values) and values[0] > 0 for values in times)
    starts = json.loads((tmp_path / "environment.json").read_text())
    assert [start["step"] for start in starts] == [0, 2]
    assert starts[0]["packages"]["jax"] == jax.__version__ and starts[0]["command"]
    assert starts[0]["devices"] == {"cpu": jax.device_count()}


def test_one_bad_batch_is_skipped_and_three_end_the_run(tmp_path, capsys):
    """Catches a run that ends for one batch, or continues for days with NaN, or saves it."""
    trainer = make_trainer(tmp_path, num_train_steps=20, checkpoint_every=1)
    trainer.task.training_batches.bad_steps = (1, 5, 6, 7)
    assert trainer.run() == DIVERGED
    skipped = [json.loads(line) for line in (tmp_path / "skipped_batches.jsonl").open()]
    assert [record["step"] for record in skipped][:4] == [2, 6, 7, 8]
    assert np.isnan(skipped[0]["x"]).all()
    assert Checkpoints(tmp_path / "checkpoints", keep=5, read_only=True).steps()[-1] == 5
    assert "the last good checkpoint is of step 5" in capsys.readouterr().err


def test_patience_ends_a_run_that_no_longer_improves(tmp_path):
    """Catches patience that counts from the start, or is forgotten by a resumption; and a loss that
    does not decide between equal scores, or that a resumption does not find."""
    losses = iter([3.0, 2.0, 2.5, 2.5, 1.0])
    for steps in (6, 20):
        trainer = make_trainer(tmp_path, num_train_steps=steps, eval_every=2, patience=3)
        trainer.task.selection_key, trainer.task.higher_is_better = "validation_bleu", True
        scores = ({"validation_bleu": 100.0, "validation_loss": loss} for loss in losses)
        trainer.task.evaluate = lambda params, scores=scores: (next(scores), [])
        assert trainer.run() == DONE
        assert trainer.checkpoints.best_step() == 4
    assert trainer.workdir.read_metrics()[-1]["step"] == 8
    assert (trainer.step, trainer.stopping.num_worse) == (8, 3)


@pytest.mark.parametrize("fails, times, code", [("save", 1, 0), ("save", 99, 1), ("wait", 1, 1)])
def test_a_checkpoint_that_cannot_be_written(fails, times, code, tmp_path, monkeypatch, capsys):
    """Catches a full disk that ends a run, or goes unsaid; only the last save decides."""
    attempt, failures = getattr(Checkpoints, fails), []

    def fail(checkpoints, *args, **notes):
        if len(failures) < times:
            failures.append(True)
            raise ValueError("RESOURCE_EXHAUSTED: no space left on device")
        return attempt(checkpoints, *args, **notes)

    monkeypatch.setattr(Checkpoints, fails, fail)
    trainer = make_trainer(tmp_path)
    assert trainer.run() == code
    trainer.checkpoints.wait()  # the save that was not waited for must not outlive the test
    said = capsys.readouterr().err
    assert said.count("could not be written: RESOURCE_EXHAUSTED: no space left") == len(failures)


def test_an_error_of_the_devices_is_none_of_the_disk(tmp_path, monkeypatch):
    """Catches a device that is lost and called a checkpoint that could not be written."""
    trainer = make_trainer(tmp_path, log_every=9, eval_every=9, checkpoint_every=2)
    settle, errors = Meter.settle, [RuntimeError("a device is lost")]

    def fail(meter, max_pending=0):
        if trainer.step == 2 and not max_pending and errors:
            raise errors.pop()
        settle(meter, max_pending)

    monkeypatch.setattr(Meter, "settle", fail)
    with pytest.raises(RuntimeError, match="a device is lost"):
        trainer.run()
    trainer.close()
