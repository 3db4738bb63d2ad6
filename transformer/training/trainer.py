"""The training loop: train, report, save, evaluate; stop when told, resume where it stopped."""

import math
import signal
from contextlib import closing, nullcontext
from functools import partial

import jax

from transformer.checkpoint.about import describe_records, lost_records
from transformer.checkpoint.checkpoints import SCORE
from transformer.checkpoint.train_state import Params, TrainState
from transformer.config import Config
from transformer.console import live_line, phase, say
from transformer.exit_codes import DIVERGED, DONE, FAILED
from transformer.files.reading import reason_of
from transformer.parallel import hosts
from transformer.parallel.mapping import make_parallel
from transformer.parallel.stopping import Interruption, Stopping
from transformer.registry import TASKS
from transformer.tasks.task import Task
from transformer.training.meter import MAX_SKIPPED, Meter
from transformer.training.optimizer import make_schedule
from transformer.training.profile import Profile, annotate, annotate_step
from transformer.training.progress import OnReport, Progress, describe_environment
from transformer.training.start import first_state
from transformer.training.steps import TrainStep, prefetch
from transformer.workdir import WorkDir


class Trainer:
    """One run: a task, its compiled training step, and the loop over both.

    stopping: says when to stop early; None: after `training.patience` evaluations alone.
    task_type: the kind of task to train; None: the one that `config.task` names.
    on_report: called on the first host with (step, metrics) for each record of metrics.jsonl, the
    training reports and the validations; what it raises ends the run.
    """

    def __init__(
        self,
        config: Config,
        workdir: WorkDir,
        stopping: Stopping | None = None,
        task_type: type[Task] | None = None,
        on_report: OnReport | None = None,
    ) -> None:
        self.workdir, self.on_report = workdir, on_report
        self.stopping = stopping or Stopping(config.training.patience)
        self._has_left_evaluation = False  # because of a signal
        self.parallel = parallel = make_parallel(config)
        with phase("reading the corpus"):
            self.task = task = (task_type or TASKS[config.task])(config, parallel, workdir)
            batch = task.training_batches[0]
        self.train_step = TrainStep(config, parallel, task.model, task.loss_fn, batch)
        self.take_schedule(config)

    def take_schedule(self, config: Config) -> None:
        """Takes a configuration that may differ in its steps, periods and schedule."""
        self.config = self.task.config = config
        self.train_step.take_schedule(config)
        self.learning_rate = make_schedule(config.optimizer, config.model.d_model)

    def run(self, profile: Profile | None = None, *, accept_changed_text: bool = False) -> int:
        """Trains to the last step or until told to stop, and saves; returns the exit code so far.

        The first step is 1, and its batch number 0. `close` ends what it has opened.
        profile: traces some of the steps.
        """
        state = self._start(accept_changed_text)
        numbers = range(self.step, self.config.training.num_train_steps)
        make_batch = partial(self.train_step.make_batch, self.task.training_batches)
        trace = closing(profile) if profile else nullcontext()
        with trace, closing(prefetch(make_batch, numbers)) as batches:
            for number in numbers:
                is_over = self.meter.has_diverged or self.stopping.has_converged
                if is_over or self._is_interrupted():
                    break
                with self.meter.waiting(), annotate("input"):
                    batch = next(batches)
                self.step = number + 1
                if profile and profile.is_due(self.step):
                    with self.meter.paused():  # which waits, so that no step is cut in two
                        profile.start_or_end()
                is_first = number == self.first_step  # which is compiled, and waited for
                with phase("compiling the training step") if is_first else nullcontext():
                    with annotate_step("train", step_num=self.step):
                        state, sums = self.train_step(state, batch)
                        if jax.process_count() > 1:  # all learn of a signal at the same step
                            is_told = bool(self.stopping.signal)
                            sums["stopping"] = self.parallel.sum_over_hosts(is_told)
                        self.meter.add(self.step, sums)
                    if is_first:
                        self.meter.settle()
                self._report()
                self._save_and_evaluate(state)
            self.meter.settle()
        return self._finish(state)

    def _start(self, accept_changed_text: bool) -> TrainState:
        """Opens checkpoints and logs, notes this start; returns the state to continue from."""
        config, workdir = self.config, self.workdir
        self.checkpoints, state, self._notes = first_state(
            config, self.task, self.train_step, accept_changed_text=accept_changed_text
        )
        self.step = self.first_step = step = int(state.step)
        about = self.checkpoints.about(step) if step else {}
        workdir.forget_metrics_after(step)  # what an interrupted run logged of later steps
        if lost := lost_records(workdir, about):
            say(f"warning: {lost}")
        workdir.append_start(step, describe_environment())
        self.progress = Progress(workdir, config, step, self.on_report)
        self.meter = Meter(self.task.cost_per_step, about.get("trained"))
        scores = self.checkpoints.scores
        for evaluated in sorted(scores):
            if evaluated > step:
                del scores[evaluated]  # the steps after the checkpoint are done again
            else:
                self.stopping.record_score(scores[evaluated][0])
        if step not in scores and (step or config.training.init_from):
            self._save_and_evaluate(state)  # as an evaluation was cut short
        return state

    def _is_interrupted(self) -> bool:
        """Whether this host, or one of several, has been told to stop."""
        is_told = self.stopping.signal and jax.process_count() == 1
        return bool(is_told or self.meter.num_hosts_stopping or self._has_left_evaluation)

    def _report(self) -> None:
        """Logs and shows the metrics every `log_every` steps, and shows them if steps take long."""
        step = self.step
        is_report = step % self.config.training.log_every == 0 or step == 1
        if is_report or live_line.is_due:
            metrics = self.meter.read() if is_report else self.meter.peek()
            metrics["learning_rate"] = float(self.learning_rate(step - 1))
            if is_report:
                self._log(metrics)
            self.progress.show(step, metrics, is_passing=not is_report)
        self._warn_of_skipped_updates()

    def _log(self, metrics: dict[str, float]) -> None:
        epoch = round(self.step / self.task.training_batches.batches_per_epoch, 4)
        self.progress.log(self.step, {**metrics, "epoch": epoch, **self.meter.trained()})

    def _warn_of_skipped_updates(self) -> None:
        while self.meter.skipped_steps:
            step = self.meter.skipped_steps.pop(0)
            file = self.workdir.append_batch(step, self.task.training_batches[step - 1])
            say(
                f"warning: the update of step {step:,} was left out, as its loss or gradient is "
                f"not finite; its batch is in {file}"
            )

    def _save_and_evaluate(self, state: TrainState) -> None:
        training, step = self.config.training, self.step
        is_evaluated = step % training.eval_every == 0 or step == training.num_train_steps
        if is_evaluated or step % training.checkpoint_every == 0:
            self.meter.settle()  # which raises what a step could not compute
            try:
                self._save(state)  # first: an evaluation may fail
            except Exception as error:  # any type
                self._say_unsaved("warning: a checkpoint", error)
        if is_evaluated:
            live_line.close()
            with self.meter.paused():
                self._evaluate(state.averaged.model_params)

    def _save(self, state: TrainState) -> None:
        """Saves, unless the last update was skipped: the one before may have done the harm."""
        if not self.meter.num_skipped_in_a_row:
            self.workdir.flush("metrics.jsonl")  # first: what it holds is not logged again
            trained = self.meter.trained() | describe_records(self.workdir)
            self.checkpoints.save(state, **self._notes, trained=trained)

    def _say_unsaved(self, subject: str, error: Exception) -> None:
        """Says that a checkpoint is missing; raises the error where other hosts may have saved."""
        if jax.process_count() > 1:
            raise error
        say(f"{subject} could not be written: {reason_of(error)}")

    def _evaluate(self, params: Params) -> None:
        """Scores the validation split; if a signal ends that, the next start makes up for it."""
        try:
            with hosts.interruptible(self.stopping), annotate("evaluation"), phase("validating"):
                metrics, samples = self.task.evaluate(params)
        except Interruption:
            self._has_left_evaluation = True
            return
        step, score = self.step, metrics[self.task.selection_key]
        score = score if self.task.higher_is_better else -score
        self._log({**metrics, SCORE: score})
        shown = (f"{name.removeprefix('validation_')} {x:.4g}" for name, x in metrics.items())
        say(f"step {step:>6,}  validation: {'  '.join(shown)}")
        if samples:
            say(samples[step % len(samples)])
            self.progress.log_samples(step, samples)
        self.stopping.record_score(score)
        self.checkpoints.record_score(step, score, metrics.get("validation_loss", math.inf))
        self.progress.draw_curves()

    def _finish(self, state: TrainState) -> int:
        """Saves the last state, unless the run has diverged; returns the exit code."""
        self._warn_of_skipped_updates()
        if self.stopping.signal == signal.SIGINT and not self.meter.has_diverged:
            say(f"saving step {self.step:,} (Ctrl-C again ends at once, without it)")
        try:
            with phase("saving the checkpoint"):
                if self.step not in self.checkpoints.steps():
                    self._save(state)
                self.checkpoints.wait()
        except Exception as error:  # any type
            self._say_unsaved("error: the last checkpoint", error)
            return FAILED
        self.progress.draw_curves(is_last=True)
        if self.meter.has_diverged:
            last = max(self.checkpoints.steps(), default=0)
            say(
                f"error: gave up at step {self.step:,} after {MAX_SKIPPED} updates in a row that "
                f"are not finite; the last good checkpoint is of step {last:,}. Lower "
                f"optimizer.peak_learning_rate or set optimizer.clip_norm, in another --workdir."
            )
            return DIVERGED
        return self.stopping.exit_code if self._is_interrupted() else DONE

    def close(self) -> None:
        """Closes the logs, and the checkpoints, whose saves it waits for."""
        self.progress.close()
        self.checkpoints.close()
