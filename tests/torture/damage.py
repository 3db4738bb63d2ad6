"""Damages one thing in a work directory, and restores from it or goes on training there.

Restoring must give the parameters, vocabularies, classes and settings of the undamaged run, or
those of another of its checkpoints with a warning, or refuse in a sentence. One trial of thirty
trains on, which must end with the parameters of the undamaged run, or be refused.
"""

import random
import shutil
import warnings
from dataclasses import replace

import jax
import numpy as np

import transformer
from tests.helpers.random_runs import write_run
from tests.torture import Outcome, Trial
from tests.torture._harms import HARMS
from transformer.checkpoint.checkpoints import Checkpoints
from transformer.checkpoint.export import export
from transformer.checkpoint.restore import restore
from transformer.config import Config

HARM = "something in a work directory damaged, removed, exchanged or renamed"
OF_OUTPUTS = ("task", "model.", "tokenizer.", "data.", "training.lora_rank")  # begin the names
STEPS = 20, 40, 60
TRAINED, TRAINED_ON = 4, 6  # steps of the run that goes on
SHARE_OF_TRAINING = 0.03  # of the trials: one takes as long as ten others


class Reading:
    """Restores the default checkpoint of a run; other: a run of another network."""

    def __init__(self, run, other):
        self.run, self.other, self.expected = run, other, restore(run)
        # A checkpoint of the other run as a whole is no damage: it holds all that it needs.
        known = [restore(of, step) for of in (run, other) for step in open_checkpoints(run).steps()]
        self.known = [(found.step, prints(found.params), facts(found)) for found in known]

    @classmethod
    def of_task(cls, folder, task):
        """Takes two runs of three checkpoints of a task."""
        run = write_run(folder / task, task, STEPS)
        return cls(run, write_run(folder / f"{task}_other", task, STEPS, activation="gelu"))

    def exported(self, folder):
        """Takes the exports of the same runs."""
        export(self.run, folder / "export")
        export(self.other, folder / "export_other")
        return Reading(folder / "export", folder / "export_other")

    def judge(self, run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            found = restore(run)
        said = "; ".join(str(warning.message) for warning in caught)
        right = (found.step, prints(found.params), facts(found)) in self.known
        # A mean, which is asked for by a changed setting of the search, is compared with nothing.
        right |= found.num_averaged > 1 and facts(found) in [facts for _, _, facts in self.known]
        is_same = found.checkpoint == self.expected.checkpoint
        is_same &= search_of(found) == search_of(self.expected)
        return (Outcome.SURVIVED if right and (is_same or said) else Outcome.SILENT), said


class Training:
    """Trains a run of four steps on to the sixth."""

    def __init__(self, folder):
        self.run, self.other, whole = folder / "four", folder / "other", folder / "six"
        self.text = folder / "text.txt"
        self.text.write_text("abcdefgh\n" * 60)
        self.train(self.run, TRAINED)
        self.train(self.other, TRAINED, "gelu")
        shutil.copytree(self.run, whole)
        self.train(whole, TRAINED_ON)
        self.expected = self.final(whole)

    def train(self, run, num_train_steps, activation="relu"):
        config = Config(task="language_model")
        config.model.d_model, config.model.d_ff = 8, 8
        config.model.num_heads, config.model.num_layers = 1, 1
        config.model.activation = activation
        config.data.corpus, config.data.row_length = str(self.text), 16
        config.data.train_split = config.data.validation_split = config.data.test_split = "all"
        config.tokenizer.kind = "characters"
        config.training.num_train_steps, config.training.batch_tokens = num_train_steps, 64
        config.training.checkpoint_every, config.training.log_every = 2, 1
        config.training.label_smoothing = 0.0
        transformer.train(config, run, verbose=False)

    def final(self, run):
        return prints(open_checkpoints(run).restore_params(TRAINED_ON))

    def judge(self, run):
        self.train(run, TRAINED_ON)
        right = self.final(run) == self.expected
        return (Outcome.SURVIVED if right else Outcome.SILENT), ""


def open_checkpoints(run):
    return Checkpoints(run / "checkpoints", keep=1, read_only=True)


def prints(params):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)]


def facts(run):
    """Returns all but the parameters on which outputs depend."""
    values = run.config.values()
    known = [s for s in Config.settings() if s.name in values and s.name.startswith(OF_OUTPUTS)]
    fixed = {s.name: values[s.name] for s in known if not s.is_path and not s.resumable}
    return fixed, [tokenizer.to_bytes() for tokenizer in run.tokenizers], run.labels


def search_of(run):
    """Returns the settings of the search that change its results."""
    return replace(run.config.decoding, batch_size=1)


def try_harm(rng, folder, run, other, judge):
    """Damages a copy of a run, and says what came of it."""
    harm = ""
    while not harm:
        copy = folder / f"{rng.getrandbits(64):x}"  # a new name: nothing is left of another trial
        shutil.copytree(run, copy)
        harm = rng.choice(HARMS)(rng, copy, other)
    try:
        outcome, said = judge(copy)
        return Trial(harm, outcome, said)
    except (ValueError, OSError) as error:  # which the commands show as a sentence, with code 2
        is_sentence = "\n" not in str(error) and str(copy) in str(error)
        return Trial(harm, Outcome.REFUSED if is_sentence else Outcome.LOST, str(error))
    except Exception as error:  # any other type is a traceback to the user
        return Trial(harm, Outcome.LOST, f"{type(error).__name__}: {error}")
    finally:
        shutil.rmtree(copy)


def trials(folder, seed, *, trains=True):
    """Yields a trial after each harm; trains: whether some of them train on, which takes longer."""
    rng = random.Random(seed)
    readings = [Reading.of_task(folder, task) for task in ("translation", "classification")]
    readings.append(readings[0].exported(folder))
    training = Training(folder) if trains else None
    while True:
        trains_on = training and rng.random() < SHARE_OF_TRAINING
        kind = training if trains_on else rng.choice(readings)
        yield try_harm(rng, folder, kind.run, kind.other, kind.judge)
