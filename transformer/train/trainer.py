"""The loop of a run: train, report, evaluate, save; stop when told, resume where it stopped."""

import os
import sys

import jax

from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.warm_start import warm_start
from transformer.console import say, this_command
from transformer.model.loss import make_loss_fn
from transformer.parallel import hosts
from transformer.parallel.devices import find_chip
from transformer.parallel.mapping import make_parallel
from transformer.signals import DIVERGED, DONE, FAILED, MAX_SKIPPED, Interruption
from transformer.tasks import load_task_class
from transformer.train.optimizer import make_schedule
from transformer.train.prefetch import prefetch
from transformer.train.progress import Meter, Progress
from transformer.train.steps import TrainStep


class Trainer:
    """A run: its parts and its loop."""

    def __init__(self, config, workdir, stopping):
        self.config, self.workdir, self.stopping = config, workdir, stopping
        self.parallel = make_parallel(config)
        self.task = load_task_class(config.task)(config, self.parallel, workdir)
        self.schedule = make_schedule(config.optimizer, config.model.d_model)
        task = self.task
        self.train_step = TrainStep(
            config, self.parallel, task.model, task.loss_fn, task.training_batches[0]
        )

    def _batch(self, step):
        self.task.training_batches.plan_ahead(step)
        return self.train_step.put_batch(self.task.training_batches[step])

    def restore_or_init(self):
        """The state to go on from: the newest good checkpoint, another run's weights, or fresh."""
        if self.checkpoints.steps():
            state = self.checkpoints.restore(self.train_step.abstract_state)
            say(f"resuming at step {int(state.step):,}")
        else:
            state = self.train_step.init_state()
        step = int(state.step)
        hosts.check_same("the checkpoint that they can read", str(step).encode)
        if step == 0 and self.config.training.init_from:
            state, note = warm_start(state, self.config.training.init_from)
            say(note)
        return state

    def run(self, conclude):
        """Trains to the end or to a signal; returns the exit code. conclude(step): the last act."""
        settings = self.config.training
        self.checkpoints = Checkpoints(self.workdir.checkpoints, keep=settings.keep_checkpoints)
        state = self.restore_or_init()
        step = int(state.step)
        self.workdir.forget_metrics_after(step)
        stream = sys.stderr if self.workdir.writes else open(os.devnull, "w")  # noqa: SIM115
        self.progress = Progress(self.workdir, settings.num_train_steps, step, stream)
        self.meter = Meter(step, *self._rates())
        self._recall_evaluations(step, state)
        batches = prefetch(self._batch, range(step, settings.num_train_steps))
        while step < settings.num_train_steps and not self._must_end():
            with self.meter.waiting():
                batch = next(batches)
            state, sums = self.train_step(state, batch)
            step += 1
            self.meter.add(step, sums | self._votes())
            self._report(step)
            self._note_skipped()
            self._evaluate_and_save(step, state)
        batches.close()
        return self._finish(step, state, conclude)

    def _rates(self):
        """(FLOPs of a target token, FLOPs that the devices can do in a second, 0 if unknown)."""
        flops, num_tokens = self.task.cost_per_step
        known = find_chip(jax.devices()[0].device_kind)
        return flops / num_tokens, known.peak_tflops * 1e12 * jax.device_count() if known else 0.0

    def _votes(self):
        """On several hosts, how many were told to stop: all learn it at the same step."""
        if jax.process_count() == 1:
            return {}
        return {"stopping": self.parallel.sum_over_hosts(bool(self.stopping.signal))}

    def _is_interrupted(self):
        return self.stopping.signal if jax.process_count() == 1 else self.meter.num_stopping

    def _has_diverged(self):
        return self.meter.num_skipped_in_a_row >= MAX_SKIPPED

    def _must_end(self):
        return self._is_interrupted() or self._has_diverged() or self.stopping.has_converged

    def _note_skipped(self):
        while self.meter.skipped:
            step = self.meter.skipped.pop(0)
            file = self.workdir.append_batch(step, self.task.training_batches[step - 1])
            self.progress.say(
                f"warning: the update of step {step:,} was left out, as its loss or gradient is "
                f"not finite; its batch is in {file}"
            )

    def _report(self, step):
        if step % self.config.training.log_every == 0 or step == 1:
            metrics = self.meter.read(step) | {"learning_rate": float(self.schedule(step - 1))}
            self.progress.log(step, metrics)
            self.progress.show(step, metrics)

    def _is_evaluated(self, step):
        settings = self.config.training
        return step % settings.eval_every == 0 or step == settings.num_train_steps

    def _evaluate_and_save(self, step, state):
        if self._is_evaluated(step):
            self._save(state, self._evaluate(step, state.params))
        elif step % self.config.training.checkpoint_every == 0:
            self._save(state)

    def _evaluate(self, step, params):
        """A score of the validation split; None if a signal cut the evaluation short."""
        try:
            with self.meter.paused(), self.stopping.at_once():
                metrics, samples = self.task.evaluate(params)
        except Interruption:
            return None
        self.progress.log(step, metrics)
        self.progress.say(f"step {step:>6,}  validation: {self.task.format_metrics(metrics)}")
        if samples:
            self.progress.say(samples[step % len(samples)])
            self.workdir.append_samples(step, samples[:20])
        score = self.task.selection_score(metrics)
        self.stopping.record_score(score)
        return score

    def _recall_evaluations(self, step, state):
        """After a resumption: judges the evaluations before it, and makes up for one cut short."""
        scores = {
            record["step"]: self.task.selection_score(record)
            for record in self.workdir.read_metrics()
            if self.task.selection_key in record and record["step"] <= step
        }
        for score in scores.values():
            self.stopping.record_score(score)
        if step and self._is_evaluated(step) and step not in scores:
            self._save(state, self._evaluate(step, state.params))

    def _save(self, state, score=None):
        """Saves, unless the last update was left out: the one before may have done the harm."""
        self.meter.settle()
        if self.meter.num_skipped_in_a_row:
            return
        try:
            self.checkpoints.save(state, score)
        except Exception as error:  # of many types, and perhaps of the save before
            if jax.process_count() > 1:
                raise
            self.progress.say(f"warning: a checkpoint could not be written: {error}")

    def _finish(self, step, state, conclude):
        """Saves, closes, and says how to go on; the exit code."""
        self.meter.settle()
        self._note_skipped()
        if self._has_diverged():
            return self._give_up(step)
        if step not in self.checkpoints.steps():
            self._save(state)
        try:
            self.checkpoints.wait()
        except Exception as error:  # of many types
            say(f"error: the last checkpoint could not be written: {error}")
            return FAILED
        self.progress.close()
        if not self._is_interrupted():
            if step < self.config.training.num_train_steps:
                num_worse = self.stopping.num_worse
                name = self.task.selection_key
                say(f"stopped at step {step:,}: no better {name} since {num_worse} evaluation(s)")
            try:
                with self.stopping.at_once():
                    conclude(step)
                return DONE
            except Interruption:
                pass
        say(f"stopped at step {step:,} and saved; resume with: {this_command()}")
        return self.stopping.exit_code

    def _give_up(self, step):
        self.checkpoints.wait()
        self.progress.close()
        steps = self.checkpoints.steps()
        say(
            f"error: gave up at step {step:,} after {MAX_SKIPPED} updates in a row that are not "
            f"finite; the last good checkpoint is of step {max(steps, default=0):,}. Lower "
            f"optimizer.peak_learning_rate or set optimizer.clip_norm, in another --workdir."
        )
        return DIVERGED


def make_step_without_data(config, parallel):
    """Makes the TrainStep of a configuration whose data are not at hand, from shapes alone.

    Vocabularies are as large as the settings say.
    """
    model, batch = load_task_class(config.task).model_and_blank_batch(config)
    loss_fn = make_loss_fn(model, config.training.label_smoothing)
    return TrainStep(config, parallel, model, loss_fn, batch)
