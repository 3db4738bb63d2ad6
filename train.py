"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME

Without flags it trains on the embedded English-German corpus. The same command resumes an
interrupted run exactly; a finished run says so. Exit codes: 0 done, 2 wrong input, 75 stopped by
SIGTERM and resumable, 130 by SIGINT.
"""

import signal
import time

import jax
from absl import flags

from transformer import card, command_line, corpus, report, training
from transformer.checkpoint import Checkpoints, warm_start
from transformer.command_line import say
from transformer.evaluation import evaluate
from transformer.optimizer import make_optimizer, make_schedule
from transformer.parallel import DataParallel
from transformer.progress import Meter, Progress, format_seconds
from transformer.translation import TranslationTask
from transformer.translator import Translator
from transformer.vocabulary import load_tokenizers, save_tokenizers
from transformer.workdir import WorkDir

CONFIG = command_line.define_config()
WORKDIR = flags.DEFINE_string("workdir", "runs/embedded_en_de", "Folder of the run.")
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Show parameters, memory and batch plan, then stop.")


class Trainer:
    """A run: its parts and its loop."""

    def __init__(self, config, workdir):
        self.config, self.workdir = config, workdir
        self.parallel = DataParallel()
        tokenizers = load_tokenizers(workdir.path) if workdir.has_run else None
        self.task = TranslationTask(config, self.parallel, tokenizers)
        # Read now, so that a test set that is missing is said before the training and not after.
        self.test_pairs = corpus.load_evaluation_pairs(config.data, config.data.test_split)
        optimizer = make_optimizer(config.optimizer, config.model.d_model)
        self.schedule = make_schedule(config.optimizer, config.model.d_model)
        self._init = self.parallel.jit_init(
            lambda: training.init_state(
                self.task.model, optimizer, self.task.training_batches[0], config.training.seed
            )
        )
        self.train_step = self.parallel.jit_train_step(
            training.make_train_step(
                self.task.loss_fn, optimizer, config.training.seed, config.training.accumulate_steps
            )
        )
        self.signal = None
        self.best, self.num_worse = None, 0  # validation BLEU, and evaluations since

    def describe(self):
        """The start-up card; with --dry_run also the parameters and what the compiler says."""
        state = jax.eval_shape(self._init)
        num_params = sum(leaf.size for leaf in jax.tree.leaves(state.params))
        lines = [
            card.model_line(self.config, num_params, self.parallel),
            *card.data_lines(self.task),
        ]
        lines += [f"steps       {self.config.training.num_train_steps:,}"]
        if DRY_RUN.value:
            batch = self.task.training_batches[0]
            compiled = self.train_step.lower(state, batch).compile()
            lines += [*card.memory_lines(compiled), "compiles    1 of the training step"]
            lines += ["parameters", *card.parameter_table(state.params)]
        say("\n".join(lines))

    def restore_or_init(self):
        """The state to go on from: the newest good checkpoint, another run's weights, or fresh."""
        state = self._init()
        if self.checkpoints.steps():
            state = self.checkpoints.restore(state)
            say(f"resuming at step {int(state.step):,}")
        elif self.config.training.init_from:
            state, note = warm_start(state, self.config.training.init_from)
            say(note)
        return state

    def run(self):
        """Trains to the end or to a signal; returns the exit code."""
        self._catch_signals()
        settings = self.config.training
        self.checkpoints = Checkpoints(self.workdir.checkpoints, keep=settings.keep_checkpoints)
        state = self.restore_or_init()
        step = int(state.step)
        self.workdir.forget_metrics_after(step)
        self._recall_scores()
        self.progress = Progress(self.workdir, settings.num_train_steps, step)
        self.meter = Meter(step)
        while step < settings.num_train_steps and not self.signal and not self._has_converged():
            batch = self.parallel.put_batch(self.task.training_batches[step])
            state, sums = self.train_step(state, batch)
            step += 1
            self.meter.add(sums)
            self._report(step)
            self._evaluate_and_save(step, state)
        return self._finish(step, state)

    def _report(self, step):
        if step % self.config.training.log_every == 0 or step == 1:
            metrics = self.meter.read(step) | {"learning_rate": float(self.schedule(step - 1))}
            self.progress.log(step, metrics)
            self.progress.show(step, metrics)

    def _evaluate_and_save(self, step, state):
        settings = self.config.training
        is_last = step == settings.num_train_steps
        score = None
        if step % settings.eval_every == 0 or is_last:
            score = self._evaluate(step, state.params)
        if score is not None or step % settings.checkpoint_every == 0:
            self._save(state, score)

    def _evaluate(self, step, params):
        with self.meter.paused():
            metrics, samples = self.task.evaluate(params)
            self.progress.log(step, metrics)
            self.progress.say(
                f"step {step:>6,}  validation: loss {metrics['validation_loss']:.4f}  perplexity "
                f"{metrics['validation_perplexity']:.3f}  BLEU {metrics['validation_bleu']:.2f}"
            )
            source, reference, translation = samples[step % len(samples)]
            self.progress.say(f"    {source}\n    = {reference}\n    > {translation}")
            self.workdir.append_samples(step, samples[:20])
        self._judge(metrics["validation_bleu"])
        return metrics["validation_bleu"]

    def _recall_scores(self):
        """After a resumption: what the evaluations before it have said of convergence."""
        for record in self.workdir.read_metrics():
            if "validation_bleu" in record:
                self._judge(record["validation_bleu"])

    def _judge(self, score):
        if self.best is None or score > self.best:
            self.best, self.num_worse = score, 0
        else:
            self.num_worse += 1

    def _has_converged(self):
        return 0 < self.config.training.patience <= self.num_worse

    def _save(self, state, score=None):
        try:
            self.checkpoints.save(state, score)
        except OSError as error:
            self.progress.say(f"warning: the checkpoint of step {int(state.step)} failed: {error}")

    def _catch_signals(self):
        def note(number, frame):
            self.signal = number
            signal.signal(signal.SIGINT, signal.default_int_handler)  # a second one ends at once

        signal.signal(signal.SIGTERM, note)
        signal.signal(signal.SIGINT, note)

    def _finish(self, step, state):
        """Saves, closes, and says how to go on; the exit code."""
        if step not in self.checkpoints.steps():
            self._save(state)
        self.checkpoints.wait()
        self.progress.close()
        if self.signal:
            say(f"stopped at step {step:,} and saved; resume with: {command_line.this_command()}")
            return 130 if self.signal == signal.SIGINT else 75
        if step < self.config.training.num_train_steps:
            say(f"stopped at step {step:,}: no better BLEU since {self.num_worse} evaluation(s)")
        conclude(self, step)
        return 0


def conclude(trainer, step):
    """Scores the test set, draws the curves and says how to go on."""
    config, workdir = trainer.config, trainer.workdir
    translator = Translator.from_checkpoint(workdir.path)
    split = config.data.test_split
    result = evaluate(translator, trainer.test_pairs, f"{config.data.corpus} {split}")
    file = result.save(workdir, split)
    say("\n" + "\n".join(result.sample_lines()))
    say(f"test set, checkpoint {result.checkpoint}:")
    say("\n".join(f"  {line}" for line in result.lines()))
    try:
        report.plot_curves(workdir.read_metrics(), workdir / "curves.png", str(workdir.path))
        say(f"curves: {workdir / 'curves.png'}   scores: {file}")
    except ValueError as error:  # no matplotlib: the run is no worse for it
        say(str(error))
    # The last line of metrics.jsonl is also what says that the run is finished.
    scores = {"test_bleu": result.bleu.value, "test_chrf": result.chrf.value}
    workdir.append_metrics(
        {"step": step, **scores, "num_train_steps": config.training.num_train_steps}
    )
    say("\n".join(card.how_to_go_on(str(workdir.path), result.sources[0])))


def main():
    start = time.monotonic()
    config = CONFIG.value.validate()
    workdir = WorkDir(WORKDIR.value)
    if DRY_RUN.value:
        Trainer(config, workdir).describe()
        return 0
    if workdir.is_finished(config):
        say(
            f"{workdir.path} is already finished; its scores are in {workdir / 'results'}. Raise "
            f"--config.training.num_train_steps to train on, or: python eval.py "
            f"--workdir={workdir.path}"
        )
        return 0
    workdir.open_for_training(config)
    trainer = Trainer(config, workdir)
    if not workdir.has_run:
        save_tokenizers(workdir.path, *trainer.task.tokenizers)
    workdir.save_config(config)
    trainer.describe()
    code = trainer.run()
    say(f"all of it took {format_seconds(time.monotonic() - start)}")
    return code


if __name__ == "__main__":
    command_line.run(main, __doc__, default_config="configs/embedded_en_de.py")
