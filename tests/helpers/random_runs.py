"""Work directories of every task with checkpoints of random weights: a run without its training."""

import jax
import jax.numpy as jnp

from tests.helpers.tiny_models import random_params, tiny_config
from transformer.checkpoint.about import describe_records, describe_run
from transformer.checkpoint.checkpoints import SCORE, Checkpoints
from transformer.checkpoint.restore import make_model, smallest_batch
from transformer.checkpoint.train_state import TrainState
from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.workdir import WorkDir

WORDS = [f"w{i}" for i in range(20)]
PIECES, CLASSES = PiecesTokenizer(WORDS, "@@"), ("no", "yes", "maybe")
TASKS = ["translation", "classification", "token_classification", "language_model"]
TASKS += ["masked_lm", "images"]


def make_config(task="translation", **model):
    """The configuration of a tiny model; model: settings of `ModelConfig` to change."""
    config = Config(task=task)
    config.model = tiny_config(**({"num_layers": 1} | model))
    config.tokenizer.kind, config.tokenizer.joiner = "pieces", "@@"
    config.data.row_length, config.data.patch_size = 64 if task == "translation" else 16, 2
    decoding = config.decoding
    decoding.batch_size, decoding.beam_size, decoding.max_extra_length = 4, 2, 4
    return config


def write_run(
    folder, task="translation", steps=(20,), *, tokenizer=PIECES, classes=CLASSES, **model
):
    """Writes a run with a checkpoint per step, weights · (1 + step / 100); returns `folder`.

    The optimizer's state is as large as Adam's. The earliest step has the best score. tokenizer:
    of both languages. classes: of a classifier.
    """
    config = make_config(task, **model)
    config.training.keep_checkpoints = len(steps)
    workdir = WorkDir(folder)
    folder.mkdir(parents=True, exist_ok=True)
    labels, tokenizers = Labels([]), ()
    if task in ("classification", "token_classification", "images"):
        labels = Labels(list(classes), [4, 4, 1] if task == "images" else [])
        labels.save(workdir.path)
    if task != "images":
        tokenizers = tokenizer, tokenizer
        save_tokenizers(workdir.path, *tokenizers)
    model = make_model(config, tokenizers, labels)
    params = random_params(model.init, smallest_batch(config, labels), deterministic=True)
    checkpoints = Checkpoints(workdir.checkpoints, keep=len(steps))
    notes = describe_run(workdir.path, config)
    for step in steps:
        scaled = jax.tree.map(lambda x, step=step: x * (1 + step / 100), params)
        state = TrainState(jnp.array(step), scaled, opt_state={"mu": scaled, "nu": scaled})
        checkpoints.save(state, **notes, trained=describe_records(workdir))
        workdir.append_metrics({"step": step, SCORE: float(-step)})
    checkpoints.close()
    workdir.save_config(config)
    return folder
