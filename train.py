"""Trains a Transformer: python train.py --config=configs/NAME.py --workdir=runs/NAME

Without flags it trains on the embedded English-German corpus. The same command resumes an interrupted
run exactly; a finished run says so.
"""

import signal
import sys
import time

import jax
from absl import flags

from transformer import command_line, parallel, training
from transformer.checkpoint import Checkpoints
from transformer.optimizer import make_optimizer, make_schedule
from transformer.progress import Progress
from transformer.translation import TranslationTask
from transformer.workdir import WorkDir

CONFIG = command_line.define_config("configs/embedded_en_de.py")
WORKDIR = flags.DEFINE_string(
    "workdir", "runs/embedded_en_de", "Folder of the run, made if missing."
)
MAX_IN_FLIGHT = 2  # steps dispatched but not waited for: the device is never idle, nor far behind


class Trainer:
    """The parts of a run and its loop."""

    def __init__(self, config, workdir):
        self.config, self.workdir = config, workdir
        self.parallel = parallel.DataParallel()
        self.task = TranslationTask(config, workdir, self.parallel)
        optimizer = make_optimizer(config.optimizer, config.model.d_model)
        self.schedule = make_schedule(config.optimizer, config.model.d_model)
        seed = config.training.seed
        self.init = self.parallel.jit_init(
            lambda: training.init_state(
                self.task.model, optimizer, self.task.training_batches[0], seed
            )
        )
        self.train_step = self.parallel.jit_train_step(
            training.make_train_step(
                self.task.loss_fn, optimizer, seed, config.training.accumulate_steps
            )
        )
        self.checkpoints = Checkpoints(workdir.checkpoints, keep=config.training.keep_checkpoints)


def main():
    config = CONFIG.value.validate()
    workdir = WorkDir(WORKDIR.value)
    workdir.open_for_training(config)
    trainer = Trainer(config, workdir)
    task = trainer.task
    print(
        task.num_pairs,
        task.notes,
        task.training_batches.batches_per_epoch,
        task.training_batches.fill(5),
    )
    state = trainer.init()
    if trainer.checkpoints.steps():
        state = trainer.checkpoints.restore(state)
    start = int(state.step)
    workdir.forget_metrics_after(start)
    t = config.training
    progress = Progress(workdir, t.num_train_steps, start)
    sums, clock = None, time.monotonic()
    for step in range(start, t.num_train_steps):
        state, new = trainer.train_step(
            state, trainer.parallel.put_batch(task.training_batches[step])
        )
        sums = new if sums is None else jax.tree.map(jax.numpy.add, sums, new)
        done = step + 1
        if done % t.log_every == 0:
            s = jax.device_get(sums)
            now = time.monotonic()
            m = {
                "loss": float(s["loss"] / s["tokens"]),
                "learning_rate": float(trainer.schedule(step)),
                "tokens_per_second": float(s["tokens"]) / (now - clock),
                "gradient_norm": float(s["gradient_norm"]) / t.log_every,
            }
            progress.log(done, m)
            progress.show(done, m)
            sums, clock = None, now
        score = None
        if done % t.eval_every == 0:
            m, samples = task.evaluate(state.params)
            progress.log(done, m)
            progress.say(str(m))
            progress.say(str(samples[:2]))
            score = m["validation_bleu"]
            clock = time.monotonic()
        if score is not None or done % t.checkpoint_every == 0:
            trainer.checkpoints.save(state, score)
    trainer.checkpoints.wait()


if __name__ == "__main__":
    command_line.run(main, __doc__, with_config=True)
