"""Damages one thing in a work directory, and restores from it or goes on training there.

Restoring must give the parameters, vocabularies, classes and settings of the undamaged run, or
those of another of its checkpoints with a warning, or refuse in a sentence. One trial of thirty
trains on, which must end with the parameters of the undamaged run, or be refused.
"""

import random
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np

import transformer
from tests.helpers.random_runs import write_run
from tests.torture import Outcome, Trial
from tests.torture._harms import HARMS
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.export import export
from transformer.checkpoint.restore import Run, restore
from transformer.config import (
    Config,
    DataConfig,
    DecodingConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)

HARM = "something in a work directory damaged, removed, exchanged or renamed"
OF_OUTPUTS = ("task", "model.", "tokenizer.", "data.", "training.lora_rank")  # begin the names
STEPS = 20, 40, 60
TRAINED, TRAINED_ON = 4, 6  # steps of the run that goes on
SHARE_OF_TRAINING = 0.03  # of the trials: one takes as long as ten others


class Reading:
    """Restores the default checkpoint of a run; other: a run of another network."""

    def __init__(self, run: Path, other: Path) -> None:
        self.run, self.other, self.expected = run, other, restore(run)
        steps = Checkpoints(run / "checkpoints", keep=1, read_only=True).steps()
        # A checkpoint of the other run as a whole is no damage: it holds all that it needs.
        known = [restore(of, step) for of in (run, other) for step in steps]
        self.known = [(found.step, prints(found.params), facts(found)) for found in known]
        self.facts = [facts for _, _, facts in self.known]

    @classmethod
    def of_task(cls, folder: Path, task: str) -> Self:
        """Takes two runs of three checkpoints of a task."""
        run = write_run(folder / task, task, STEPS)
        return cls(run, write_run(folder / f"{task}_other", task, STEPS, activation="gelu"))

    def exported(self, folder: Path) -> "Reading":
        """Takes the exports of the same runs."""
        export(self.run, folder / "export")
        export(self.other, folder / "export_other")
        return Reading(folder / "export", folder / "export_other")

    def judge(self, run: Path) -> tuple[Outcome, str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = restore(run)
        said = "; ".join(str(warning.message) for warning in caught)
        # A mean, which is asked for by a changed setting of the search, is compared with nothing.
        right = (found.step, prints(found.params), facts(found)) in self.known
        right = right or (found.num_averaged > 1 and facts(found) in self.facts)
        is_same = (found.checkpoint, search_of(found)) == (
            self.expected.checkpoint,
            search_of(self.expected),
        )
        return (Outcome.SURVIVED if right and (is_same or said) else Outcome.SILENT), said


class Training:
    """Trains a run of four steps on to the sixth."""

    def __init__(self, folder: Path, task: str = "language_model") -> None:
        self.run, self.other, whole = folder / "four", folder / "other", folder / "six"
        self.text = folder / "text.txt"
        self.text.write_text("abcdefgh\n" * 60)
        self.train(self.run, TRAINED)
        self.train(self.other, TRAINED, activation="gelu")
        shutil.copytree(self.run, whole)
        self.train(whole, TRAINED_ON)
        self.expected = self.final(whole)

    def train(self, run: Path, num_train_steps: int, **model: Any) -> None:
        shape = {"d_model": 8, "d_ff": 8, "num_heads": 1, "num_layers": 1, **model}
        config = Config(
            task="language_model",
            model=ModelConfig(**shape),
            data=DataConfig(corpus=str(self.text), row_length=16),
            tokenizer=TokenizerConfig(kind="characters"),
            training=TrainingConfig(
                num_train_steps=num_train_steps, batch_tokens=64, checkpoint_every=2, log_every=1
            ),
        )
        config.data.train_split = config.data.validation_split = config.data.test_split = "all"
        config.training.label_smoothing = 0.0
        transformer.train(config, run, verbose=False)

    def final(self, run: Path) -> list[int]:
        checkpoints = Checkpoints(run / "checkpoints", keep=1, read_only=True)
        return prints(checkpoints.restore_params(TRAINED_ON))

    def judge(self, run: Path) -> tuple[Outcome, str]:
        self.train(run, TRAINED_ON)
        right = self.final(run) == self.expected
        return (Outcome.SURVIVED if right else Outcome.SILENT), ""


def prints(params: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)]


def facts(run: Run) -> tuple[Any, ...]:
    """Returns all but the parameters on which outputs depend."""
    known = {setting.name: setting for setting in Config.settings() if not setting.is_path}
    values = {name: value for name, value in run.config.values().items() if name in known}
    settings = {name: v for name, v in values.items() if name.startswith(OF_OUTPUTS)}
    fixed = {name: v for name, v in settings.items() if not known[name].resumable}
    return fixed, [tokenizer.to_bytes() for tokenizer in run.tokenizers], run.labels


def search_of(run: Run) -> DecodingConfig:
    """Returns the settings of the search that change its results."""
    return replace(run.config.decoding, batch_size=1)


def try_harm(
    rng: random.Random, folder: Path, run: Path, other: Path, judge: Callable[..., Any]
) -> Trial:
    """Damages a copy of a run, and says what came of it."""
    harm = ""
    while not harm:
        copy = folder / f"{rng.getrandbits(64):x}"  # a new name: nothing is left of another trial
        shutil.copytree(run, copy)
        harm = rng.choice(HARMS)(rng, copy, other)
    try:
        outcome, said = judge(copy)
        return Trial(harm, outcome, said)
    except (
        ValueError,
        OSError,
    ) as error:  # which the commands show as a sentence, with exit code 2
        is_sentence = "\n" not in str(error) and str(copy) in str(error)
        return Trial(harm, Outcome.REFUSED if is_sentence else Outcome.LOST, str(error))
    except Exception as error:  # any other type is a traceback to the user
        return Trial(harm, Outcome.LOST, f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(copy)


def trials(folder: Path, seed: int, *, trains: bool = True) -> Iterator[Trial]:
    """Yields a trial after each harm; trains: whether some of them train on, which takes longer."""
    rng = random.Random(seed)
    readings = [Reading.of_task(folder, task) for task in ("translation", "classification")]
    readings.append(readings[0].exported(folder))
    training = Training(folder) if trains else None
    while True:
        if training and rng.random() < SHARE_OF_TRAINING:
            kind: Any = training
        else:
            kind = rng.choice(readings)
        yield try_harm(rng, folder, kind.run, kind.other, kind.judge)
