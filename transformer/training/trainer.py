"""The training loop: train, report, evaluate, save; stop when told, resume where it stopped."""

import math
import signal
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import jax

from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.open_run import choose_base, load_base
from transformer.checkpoint.orbax_manager import reason_of
from transformer.checkpoint.train_state import Params, TrainState
from transformer.checkpoint.warm_start import warm_start
from transformer.config import Config
from transformer.console import phase, quantity, say
from transformer.parallel import hosts
from transformer.parallel.mapping import make_parallel
from transformer.registry import TASKS
from transformer.signals import DIVERGED, DONE, FAILED, MAX_SKIPPED, Interruption, Stopping
from transformer.tasks.task import Task
from transformer.training.meter import make_meter
from transformer.training.optimizer import make_schedule
from transformer.training.prefetch import prefetch
from transformer.training.profile import NO_PROFILE, Profile, annotate
from transformer.training.progress import OnReport, open_progress
from transformer.training.same_run import describe_records, open_checkpoints
from transformer.training.steps import Batch, Sums, TrainStep
from transformer.workdir import WorkDir

Conclude = Callable[[int], None]


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
        self._has_left = False  # whether a signal ended an evaluation
        self.parallel = make_parallel(config)
        make_task = task_type or TASKS[config.task]
        with phase("reading the corpus"):
            self.task = make_task(config, self.parallel, workdir)
        self.take_schedule(config)

    def take_schedule(self, config: Config) -> None:
        """Takes a configuration that may differ in its steps, periods and schedule."""
        task = self.task
        self.config = task.config = config
        self.learning_rate = make_schedule(config.optimizer, config.model.d_model)
        with phase("making the first batch"):
            batch = task.training_batches[0]
        self.train_step = TrainStep(config, self.parallel, task.model, task.loss_fn, batch)

    def run(self, conclude: Conclude | None = None, profile: Profile = NO_PROFILE) -> int:
        """Trains to the last step or until told to stop; returns the exit code for the process.

        conclude(step) is called at the end of a run that was not interrupted, to score a test
        split for example. profile: traces some of the steps.
        """
        training = self.config.training
        state = self._start()
        step = int(state.step)
        batches = prefetch(self._make_batch, range(step, training.num_train_steps))
        while step < training.num_train_steps and not self._must_end():
            is_first = step == self.first_step
            with phase("compiling the training step") if is_first else nullcontext():
                with profile.step(step + 1, self.meter.paused):
                    with self.meter.waiting(), annotate("input"):
                        batch = next(batches)
                    state, sums = self.train_step(state, batch)
                step += 1
                self.meter.add(step, sums | self._vote_to_stop(), wait=is_first)
            self._report(step)
            self._warn_of_skipped_updates()
            self._save_and_evaluate(step, state)
        batches.close()
        profile.close(self.meter.paused)
        return self._finish(step, state, conclude)

    def _start(self) -> TrainState:
        """Opens checkpoints and logs; returns the state to continue from."""
        self.checkpoints = open_checkpoints(self.config, self.workdir, self.task)
        state = _restore_or_init(self.config, self.workdir, self.checkpoints, self.train_step)
        self.first_step = step = int(state.step)
        trained = self.checkpoints.about(step).get("trained", {}) if step else {}
        self.progress = open_progress(self.workdir, self.config, step, trained, self.on_report)
        self.meter = make_meter(step, self.task.cost_per_step, trained)
        self._recall_evaluations(step, state)
        return state

    def _recall_evaluations(self, step: int, state: TrainState) -> None:
        """Counts the evaluations before a resumption, and makes up for one that was cut short."""
        scores = _scores_until(step, self.task, self.workdir)
        for scored_step, (score, loss) in scores.items():
            self.stopping.record_score(score)
            self.checkpoints.record_score(scored_step, score, loss)
        if step not in scores and (step or self.config.training.init_from):
            self._save_and_evaluate(step, state)

    def _make_batch(self, step: int) -> Batch:
        self.task.training_batches.plan_ahead(step)
        return self.train_step.make_batch(self.task.training_batches, step)

    def _must_end(self) -> bool:
        return self._is_interrupted() or self.meter.has_diverged or self.stopping.has_converged

    def _vote_to_stop(self) -> Sums:
        """Counts the hosts told to stop, if there are several: all learn it at the same step."""
        if jax.process_count() == 1:
            return {}
        return {"stopping": self.parallel.sum_over_hosts(bool(self.stopping.signal))}

    def _is_interrupted(self) -> bool:
        is_alone = jax.process_count() == 1
        told = self.stopping.signal if is_alone else self.meter.num_hosts_stopping
        return self._has_left or bool(told)

    def _report(self, step: int) -> None:
        """Logs and shows the metrics every `log_every` steps, and shows them if steps take long."""
        is_report = step % self.config.training.log_every == 0 or step == 1
        if not is_report and not self.progress.is_due:
            return
        metrics = self.meter.read(step) if is_report else self.meter.peek()
        metrics["learning_rate"] = float(self.learning_rate(step - 1))
        if is_report:
            self._log(step, metrics)
        self.progress.show(step, metrics, is_passing=not is_report)

    def _log(self, step: int, metrics: dict[str, float]) -> None:
        epoch = round(step / self.task.training_batches.batches_per_epoch, 4)
        self.progress.log(step, {**metrics, "epoch": epoch, **self.meter.trained()})

    def _warn_of_skipped_updates(self) -> None:
        for step in self.meter.pop_skipped_steps():
            file = self.workdir.append_batch(step, self.task.training_batches[step - 1])
            self.progress.say(
                f"warning: the update of step {step:,} was left out, as its loss or gradient is "
                f"not finite; its batch is in {file}"
            )

    def _save_and_evaluate(self, step: int, state: TrainState) -> None:
        is_evaluated = self._is_evaluated(step)
        if is_evaluated or step % self.config.training.checkpoint_every == 0:
            self._save(state)  # first: an evaluation may fail
        if is_evaluated:
            with self.meter.paused():
                self._evaluate(step, state.averaged.model_params)

    def _is_evaluated(self, step: int) -> bool:
        training = self.config.training
        return step % training.eval_every == 0 or step == training.num_train_steps

    def _evaluate(self, step: int, params: Params) -> None:
        """Scores the validation split; if a signal ends that, the next start makes up for it."""
        self.progress.pause()
        try:
            with hosts.interruptible(self.stopping), annotate("evaluation"), phase("validating"):
                metrics, samples = self.task.evaluate(params)
        except Interruption:
            self._has_left = True
            return
        self._log(step, metrics)
        self.progress.say(f"step {step:>6,}  validation: {self.task.format_metrics(metrics)}")
        if samples:
            self.progress.say(samples[step % len(samples)])
            self.progress.log_samples(step, samples)
        score, loss = _score_and_loss(self.task, metrics)
        self.stopping.record_score(score)
        self.checkpoints.record_score(step, score, loss)
        self.progress.draw_curves()

    def _save(self, state: TrainState, *, is_last: bool = False) -> None:
        """Saves, unless the last update was skipped: the one before may have done the harm."""
        self.meter.settle()
        if self.meter.num_skipped_in_a_row:
            return
        try:
            self.workdir.flush("metrics.jsonl")  # first: what it holds is not logged again
            self.checkpoints.save(state, self.meter.trained() | describe_records(self.workdir))
        except Exception as error:  # any type
            if is_last or jax.process_count() > 1:
                raise
            self.progress.say(f"warning: a checkpoint could not be written: {reason_of(error)}")

    def _finish(self, step: int, state: TrainState, conclude: Conclude | None) -> int:
        """Saves the last state, closes the logs and concludes; returns the exit code."""
        self.meter.settle()
        self._warn_of_skipped_updates()
        if self.meter.has_diverged:
            return self._give_up(step)
        if self.stopping.signal == signal.SIGINT:
            self.progress.say(f"saving step {step:,} (Ctrl-C again ends at once, without it)")
        try:
            with phase("saving the checkpoint"):
                if step not in self.checkpoints.steps():
                    self._save(state, is_last=True)
                self.checkpoints.wait()
        except Exception as error:  # any type
            if jax.process_count() > 1:
                raise
            say(f"error: the last checkpoint could not be written: {reason_of(error)}")
            return FAILED
        self.progress.draw_curves(is_last=True)
        is_done = not self._is_interrupted() and self._conclude(step, conclude)
        self.progress.close()
        return DONE if is_done else self.stopping.exit_code

    def _conclude(self, step: int, conclude: Conclude | None) -> bool:
        """Calls conclude(step); returns whether it came to its end."""
        if step < self.config.training.num_train_steps:
            since = quantity(self.stopping.num_worse, "evaluation")
            say(f"stopped at step {step:,}: no better {self.task.selection_key} since {since}")
        try:
            with hosts.interruptible(self.stopping):
                if conclude:
                    conclude(step)
        except Interruption:
            return False
        return True

    def _give_up(self, step: int) -> int:
        """Ends a run that has diverged; returns its exit code."""
        self.checkpoints.wait()
        self.progress.draw_curves(is_last=True)
        self.progress.close()
        last = max(self.checkpoints.steps(), default=0)
        say(
            f"error: gave up at step {step:,} after {MAX_SKIPPED} updates in a row that are not "
            f"finite; the last good checkpoint is of step {last:,}. Lower "
            f"optimizer.peak_learning_rate or set optimizer.clip_norm, in another --workdir."
        )
        return DIVERGED


def _restore_or_init(
    config: Config, workdir: WorkDir, checkpoints: Checkpoints, train_step: TrainStep
) -> TrainState:
    """Returns the newest good checkpoint, or a fresh state, or one with another run's weights."""
    note, training, resumes = "", config.training, bool(checkpoints.steps())
    if resumes:
        with phase("restoring the checkpoint"):
            state = checkpoints.restore(train_step.abstract_state)
        note = f"resuming at step {int(state.step):,}"
    else:
        with phase("initialising the parameters"):
            state = train_step.init_state()
        if training.init_from and not training.lora_rank:
            params, note = warm_start(state.params, workdir, training.init_from)
            state = state.with_params(params)
    if training.lora_rank:
        base = load_base(workdir) if resumes else choose_base(workdir, training.init_from)
        state = state.replace(frozen=_put_like(train_step.abstract_state.frozen, base))
        note = note or f"adapters of rank {training.lora_rank} to {training.init_from}"
    hosts.check_same("the checkpoint that they can read", note.encode)
    if note:
        say(note)
    return state


def _put_like(like: Params, base: Params) -> Params:
    """Puts the parameters of a base on the devices; like: their shapes and shardings."""

    def shapes(params: Params) -> Any:
        return jax.tree.map(lambda x: x.shape, params)

    if shapes(like) != shapes(base):
        raise ValueError(
            "training.lora_rank adapts a model of the same shape and task as that of "
            "training.init_from; set --config.training.lora_rank=0 to train a model that differs."
        )
    return jax.tree.map(lambda x, y: jax.device_put(y.astype(x.dtype), x.sharding), like, base)


def _score_and_loss(task: Task, metrics: Mapping[str, float]) -> tuple[float, float]:
    """Returns the score and the loss of a validation, which is infinite where there is none."""
    return task.selection_score(metrics), metrics.get("validation_loss", math.inf)


def _scores_until(step: int, task: Task, workdir: WorkDir) -> dict[int, tuple[float, float]]:
    """Returns score and loss of the validations that were logged up to a step, by their steps."""
    return {
        record["step"]: _score_and_loss(task, record)
        for record in workdir.read_metrics()
        if task.selection_key in record and record["step"] <= step
    }
