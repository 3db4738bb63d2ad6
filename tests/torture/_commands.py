"""The commands of which `failing_io` lets every file operation fail, and what each must come to."""

import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.helpers.scripts import CONFIG as PAIRS
from tests.helpers.scripts import write_corpus
from tests.helpers.tiny_runs import CONFIG as TASK
from tests.helpers.tiny_runs import SETTINGS, SPLITS, write_sentences

CLASSIFIER = [f"{name}={value}" for name, value in SETTINGS.items()]
CLASSIFIER += ["training.num_train_steps=6", "training.eval_every=3", "training.log_every=1"]
CLASSIFIER += ["training.checkpoint_every=2", "training.keep_checkpoints=2"]
CLASSIFIER += ["tokenizer.kind=characters"]
OF_A_RECORD = re.compile("loss|gradient_norm|validation_|num_train_steps|step")
TIMES = re.compile("seconds|_per_second|hours")


class Case(NamedTuple):
    """A command, what is there before it, and what it must come to.

    make(worker, folder): writes what is there before. words(folder): the command. result(worker,
    folder): what must be equal after any failure.
    """

    make: Callable[..., Any]
    words: Callable[..., Any]
    result: Callable[..., Any]


def train_words(place, *settings):
    """Returns the command that trains a tiny classifier for six steps."""
    corpus = f"data.corpus={place / 'corpus'}"
    config = [f"--config.{setting}" for setting in (*CLASSIFIER, *SPLITS, corpus, *settings)]
    return ["train.py", f"--config={place / 'tiny.py'}", f"--workdir={place / 'run'}", *config]


def make_sentences(worker, place):
    """Writes a corpus of two classes and the configuration of a classifier."""
    write_sentences(place / "corpus")
    (place / "tiny.py").write_text(TASK.format(task="classification"))


def make_stopped(worker, place):
    """Leaves a run that has come to half of its steps."""
    make_sentences(worker, place)
    _succeed(worker, train_words(place, "training.num_train_steps=4"))


def make_classifier(worker, place):
    """Leaves a classifier, and a text whose lines are to be classified."""
    make_sentences(worker, place)
    _succeed(worker, train_words(place))
    (place / "text").write_text("a b x\nc d\n" * 20)


def make_translator(worker, place):
    """Leaves a run of translation, a text to translate and a test set."""
    _succeed(worker, ["write run", place / "run"])
    (place / "corpus").mkdir()
    for name in ("text", "corpus/val.en", "corpus/val.de"):
        (place / name).write_text("w1 w2 w3\nw4 w5\n" * 8)


def make_pairs(worker, place):
    """Writes a parallel corpus and the configuration of a translator."""
    corpus = write_corpus(place / "corpus", 60)
    (place / "tiny.py").write_text(PAIRS.format(corpus=corpus))


def _succeed(worker, words):
    answer = worker.run(words)
    assert answer.code == 0, answer.err


def run_result(worker, place):
    """Returns the reports, the parameters and the test scores of a run."""
    lines = (place / "run" / "metrics.jsonl").read_text().splitlines()
    reports = {}
    for record in map(json.loads, lines):
        kept = {key: value for key, value in record.items() if OF_A_RECORD.match(key)}
        kept = {key: value for key, value in kept.items() if not TIMES.search(key)}
        reports.setdefault(str(record["step"]), []).append(kept)
    return {"reports": reports, **params_of(worker, place / "run"), "~": results(worker, place)}


def params_of(worker, run):
    """Returns the checkpoints of a run with the checksums of their parameters."""
    answer = worker.run(["parameters", run])
    kept, *others = answer.out.splitlines() or [""]
    return {"last": others[-1:], "~kept": kept, "~others": others, "~problems": answer.err}


def results(worker, place):
    """Returns the files of the scores, but for the report, which shows times; each may differ."""
    folder = place / "run" / "results"
    files = [file for file in folder.rglob("*") if file.suffix in (".txt", ".jsonl", ".json")]
    return {f"~{file.relative_to(folder)}": file.read_bytes() for file in files}


def prepare_words(place):
    return ["transformer-prepare", f"--config={place / 'tiny.py'}", f"--workdir={place / 'run'}"]


def prepared(worker, place):
    """Returns the files of the prepared corpora."""
    files = [file for file in (place / "prepared_corpora").rglob("*") if file.is_file()]
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


def evaluate(place):
    return ["eval.py", f"--workdir={place / 'run'}"]


def answers(place):
    """Returns the command that answers each line of a text."""
    files = [f"--input={place / 'text'}", f"--output={place / 'answers'}", "--chunk_lines=8"]
    return [*evaluate(place), *files]


def answered(worker, place):
    """Returns the answers."""
    return {"~answers": (place / "answers").read_bytes()}


CASES = {
    "save": Case(
        lambda worker, place: None,
        lambda place: ["save", place / "run"],
        lambda worker, place: params_of(worker, place / "run"),
    ),
    "train": Case(make_sentences, train_words, run_result),
    "resume": Case(make_stopped, train_words, run_result),
    "score": Case(
        make_translator,
        lambda place: [*evaluate(place), "--split=val", f"--corpus={place / 'corpus'}"],
        results,
    ),
    "translate a file": Case(make_translator, answers, answered),
    "classify a file": Case(make_classifier, answers, answered),
    "export": Case(
        make_translator,
        lambda place: ["transformer-export", place / "run", place / "exported"],
        lambda worker, place: {"~": params_of(worker, place / "exported")},
    ),
    "prepare": Case(make_pairs, prepare_words, prepared),
}
