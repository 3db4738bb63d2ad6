"""Runs of tiny models of the other tasks."""

import random

from tests.helpers.commands import call
from transformer.config import Config, DataConfig, ModelConfig, TrainingConfig

SETTINGS = {
    "model.d_model": 32,
    "model.d_ff": 64,
    "model.num_heads": 2,
    "model.num_layers": 1,
    "model.dropout_rate": 0.0,
    "data.row_length": 16,
    "optimizer.warmup_steps": 20,
    "optimizer.peak_learning_rate": 0.01,
    "training.num_train_steps": 80,
    "training.batch_tokens": 256,
    "training.log_every": 20,
    "training.eval_every": 40,
    "training.checkpoint_every": 40,
    "decoding.batch_size": 4,
}
CONFIG = """
from transformer.config import Config

def get_config():
    return Config(task="{task}")
"""


def train(folder, task, corpus, *more):
    """A run of a tiny model with `folder` as work directory: (exit code, standard error)."""
    config = folder.with_suffix(".py")
    config.write_text(CONFIG.format(task=task))
    settings = [f"{name}={value}" for name, value in SETTINGS.items()]
    settings += [f"data.corpus={corpus}", *more]
    arguments = [f"--config.{setting}" for setting in settings]
    code, _, err = call("train.py", f"--config={config}", f"--workdir={folder}", *arguments)
    return code, err


def small_language_model(corpus):
    """The configuration of the smallest language model there is, on a text of short lines."""
    config = Config(task="language_model")
    config.model = ModelConfig(d_model=8, d_ff=8, num_heads=1, num_layers=1)
    config.data = DataConfig(corpus=str(corpus), row_length=16)
    config.data.train_split = config.data.validation_split = config.data.test_split = "all"
    config.tokenizer.kind = "characters"
    config.training = TrainingConfig(batch_tokens=64, log_every=1, label_smoothing=0.0)
    return config


def write_sentences(folder):
    """Sentences of letters, whose class is whether there is an x."""
    rng, rows = random.Random(0), []
    for _ in range(300):
        words = [rng.choice("abcdefg") for _ in range(rng.randint(2, 7))]
        label = rng.random() < 0.5
        if label:
            words[rng.randrange(len(words))] = "x"
        rows.append(f"{'with' if label else 'without'}\t{' '.join(words)}\n")
    folder.mkdir()
    (folder / "train.tsv").write_text("".join(rows))
    return folder


SPLITS = ["data.train_split=train[:80%]", "data.validation_split=train[80%:]"]
SPLITS += ["data.test_split=train[80%:]"]
CHARACTERS = "tokenizer.kind=characters"
