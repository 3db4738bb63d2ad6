"""Damages one thing in a work directory, and restores from it or goes on training there.

Restoring must give the parameters, vocabularies, classes and settings of the undamaged run, or
those of another of its checkpoints with a warning, or refuse in a sentence. One trial of thirty
trains on, which must end with the parameters of the undamaged run, or be refused.
"""

import json
import random
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import transformer
from tests.helpers.random_runs import write_run
from tests.helpers.tiny_runs import small_language_model
from tests.torture import Outcome, Trial
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
        self.config = small_language_model(folder / "text.txt")
        self.config.training.checkpoint_every = 2
        Path(self.config.data.corpus).write_text("abcdefgh\n" * 60)
        self.train(self.run, TRAINED)
        self.train(self.other, TRAINED, "gelu")
        shutil.copytree(self.run, whole)
        self.train(whole, TRAINED_ON)
        self.expected = self.final(whole)

    def train(self, run, num_train_steps, activation="relu"):
        self.config.training.num_train_steps = num_train_steps
        self.config.model.activation = activation
        transformer.train(self.config, run, verbose=False)

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


# ---- harms: each returns a sentence, or "" if it could not be done


def changing(what, change):
    """Returns the harm that makes change(data, byte, rng) of the data of a file, at any byte."""

    def harm(rng, run, other):
        file = choose_file(rng, run)
        data = file.read_bytes()
        byte = rng.randrange(len(data) + 1)
        changed = change(data, byte, rng)
        file.write_bytes(changed)
        place = f"byte {byte} of {len(data)} of {file.relative_to(run)}"
        return f"{what} at {place}" * (changed != data)

    return harm


def flip_bit(data, byte, rng):
    flipped = bytes(value ^ 1 << rng.randrange(8) for value in data[byte : byte + 1])
    return data[:byte] + flipped + data[byte + 1 :]


def set_to_zero(data, byte, rng):
    end = min(len(data), byte + rng.choice((16, 512, 4096)))
    return data[:byte] + bytes(end - byte) + data[end:]


def remove(rng, run, other):
    path = rng.choice([*files_of(run), *folders_of(run)])
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    return f"{path.relative_to(run)} removed"


def make_folder(rng, run, other):
    file = choose_file(rng, run)
    file.unlink()
    file.mkdir()
    return f"a folder in the place of {file.relative_to(run)}"


def exchange(rng, run, other):
    places = folders_of(run) if rng.random() < 0.3 else files_of(run)
    one, two = rng.sample(places, 2)
    if one in two.parents or two in one.parents:
        return ""
    aside = run / "aside"
    one.rename(aside), two.rename(one), aside.rename(two)
    return f"{one.relative_to(run)} and {two.relative_to(run)} exchanged"


def rename_step(rng, run, other):
    folder = rng.choice([path for path in (run / "checkpoints").iterdir() if path.is_dir()])
    name = rng.choice(("10", "80", "5", "x", f"0{folder.name}"))
    folder.rename(folder.with_name(name))
    return f"{folder.relative_to(run)} renamed to {name}"


def take_from_other(rng, run, other):
    """Takes a file or a folder of a run of another network, whose arrays have the same shapes."""
    path = rng.choice([*files_of(other), *folders_of(other)])
    place = run / path.relative_to(other)
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(path, place) if path.is_dir() else shutil.copyfile(path, place)
    return f"{place.relative_to(run)} taken from another run"


def change_setting(rng, run, other):
    file = run / "config.json"
    groups = json.loads(file.read_text())
    group = groups[rng.choice([name for name, value in groups.items() if isinstance(value, dict)])]
    name = rng.choice(list(group))
    value = group[name]
    group[name] = not value if isinstance(value, bool) else value * 2 if value else value
    file.write_text(json.dumps(groups))
    return f"config.json: {name} changed from {value!r} to {group[name]!r}"


def leave_stray(rng, run, other):
    folder = rng.choice([run, *folders_of(run)])
    stray = folder / rng.choice(("stray.tmp", "70", "metrics.jsonl.tmp", "d", ".DS_Store"))
    if stray.exists():
        return ""
    stray.mkdir() if rng.random() < 0.5 else stray.write_bytes(b"?")
    return f"{stray.relative_to(run)} added"


def files_of(run):
    return sorted(path for path in run.rglob("*") if path.is_file())


def folders_of(run):
    return sorted(path for path in run.rglob("*") if path.is_dir())


def choose_file(rng, run):
    """Returns any file, half of the time one outside the arrays, which are most of the files."""
    files = files_of(run)
    small = [file for file in files if "d" not in file.parts[-2:-1]]
    return rng.choice(small if small and rng.random() < 0.5 else files)


flip = changing("a bit flipped", flip_bit)
HARMS = [flip, flip, changing("cut", lambda data, byte, rng: data[:byte])]
HARMS += [changing("bytes set to 0", set_to_zero)]
HARMS += [changing("20 bytes appended", lambda data, byte, rng: data + rng.randbytes(20))]
HARMS += [remove, make_folder, exchange, rename_step]
HARMS += [take_from_other, change_setting, leave_stray]


# ---- trials


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
    rng, readings = random.Random(seed), []
    for task in ("translation", "classification"):
        run = write_run(folder / task, task, STEPS)
        other = write_run(folder / f"{task}_other", task, STEPS, activation="gelu")
        readings.append(Reading(run, other))
    for name in ("translation", "translation_other"):
        export(folder / name, folder / f"{name}_export")
    readings.append(Reading(folder / "translation_export", folder / "translation_other_export"))
    training = Training(folder) if trains else None
    while True:
        trains_on = training and rng.random() < SHARE_OF_TRAINING
        kind = training if trains_on else rng.choice(readings)
        yield try_harm(rng, folder, kind.run, kind.other, kind.judge)
