"""Lets one file operation of a command fail, for every operation of it, in turn or for good.

The command must go on to the right result or end in a sentence; the next start must give the right
result, and leave nothing behind.
"""

import errno
import itertools
import json
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.helpers.failing_io import PROGRAMS, Answer, Failure, Worker, compile_library, run_alone
from tests.helpers.scripts import CONFIG as PAIRS
from tests.helpers.scripts import write_corpus
from tests.helpers.tiny_runs import CONFIG as TASK
from tests.helpers.tiny_runs import SETTINGS, SPLITS, write_sentences
from tests.torture import Outcome, Trial

HARM = "the n-th write, fsync, rename, open, read or mkdir of a command fails"
ERRORS = {
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EINTR),
    "rename": (errno.EIO, errno.ENOSPC, errno.EDQUOT),
    "open": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR),
    "read": (errno.EIO, errno.EINTR),
    "mkdir": (errno.ENOSPC, errno.EIO, errno.EDQUOT),
    "look": (errno.EIO, errno.EINTR),
}
LITTER = re.compile(r"\.tmp|-tmp|\.parts|/parts|making-|(^|/)\.")
# An earlier checkpoint is missing, or another one was used for the answers.
WARNED = re.compile(r"checkpoint could not be written|warning: Checkpoint \d+ cannot be used")
ALONE_EVERY = 12  # trials, one of which is a process of its own
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

    make: Callable[[Worker, Path], None]
    words: Callable[[Path], list[Any]]
    result: Callable[[Worker, Path], Any]


def trials(folder: Path, seed: int, names: list[str] | None = None) -> Iterator[Trial]:
    """Yields the trials of all commands, or of those that are named, in turn and random order.

    There are none without Linux and a C compiler.
    """
    library = compile_library(folder)
    if library is None:
        return
    rig = Rig(library, folder)
    try:
        rng = random.Random(seed)
        failures = {name: each_call_first(rng, rig.failures(name)) for name in names or CASES}
        number = 0
        while any(failures.values()):
            for name, left in failures.items():
                number += 1
                if left and (trial := rig.try_out(name, left.pop(0), number % ALONE_EVERY == 0)):
                    yield trial
    finally:
        rig.worker.close()


def each_call_first(rng: random.Random, failures: list[Failure]) -> list[Failure]:
    """Returns failures in random order: one of each call, then another of each, and so on.

    For calls a and b that may fail in three and two ways: a2 b1, b2 a3, a1.
    """
    ways: dict[tuple[str, int], list[Failure]] = {}
    for failure in rng.sample(failures, len(failures)):
        ways.setdefault((failure.kind, failure.number), []).append(failure)
    rounds = itertools.zip_longest(*ways.values())
    return [failure for one in rounds for failure in one if failure]


class Rig:
    """A worker and the folder in which each trial begins as its case does."""

    def __init__(self, library: Path, folder: Path) -> None:
        self._library, self._templates = library, folder / "templates"
        self.place = folder / "trial"
        self._expected: dict[str, Any] = {}
        self.worker = Worker(library, self.place)

    def failures(self, name: str) -> list[Failure]:
        """Runs a case undisturbed; returns all that can fail in it."""
        case, template = CASES[name], self._templates / name
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir()
        case.make(self.worker, self.place)
        shutil.copytree(self.place, template)
        answer = self._run(name)
        assert answer.code == 0, answer.err
        self._expected[name] = case.result(self.worker, self.place), litter(self.place)
        return [
            Failure(kind, number, error, mode)
            for kind, count in answer.counts.items()
            for number in range(1, count + 1)
            for error in ERRORS[kind]
            for mode in (["once"] if error == errno.EINTR else ["once", "from then on", "half"])
            if mode != "half" or kind == "write"
        ]

    def try_out(self, name: str, failure: Failure, is_alone: bool = False) -> Trial | None:
        """Runs a case with a failure, and then again; None if it came to no failure.

        is_alone: whether the first time is a process of its own, if the case is a command.
        """
        shutil.rmtree(self.place)
        shutil.copytree(self._templates / name, self.place)
        words = [str(word) for word in CASES[name].words(self.place)]
        if is_alone and words[0] in PROGRAMS:
            answer = run_alone(str(self._library), self.place, words, failure)
        else:
            answer = self._run(name, failure)
        harm = (
            f"{name}: {failure.kind} {failure.number} {failure.mode} "
            f"({errno.errorcode[failure.error]}, {answer.failed.removeprefix(str(self.place))})"
        )
        if answer.code is not None and not answer.failed:
            return None
        outcome, text = self._judge(name, answer)
        return Trial(harm, outcome, text)

    def _judge(self, name: str, answer: Answer) -> tuple[Outcome, str]:
        if answer.code is None and answer.failed != "?":
            self.worker.close()
            self.worker = Worker(self._library, self.place)
            return Outcome.LOST, f"no end: {answer.err[-9000:]}"
        if "Traceback" in answer.err:
            return Outcome.LOST, answer.err[-3000:]
        if answer.code == 0:
            return self._compare(name, Outcome.SURVIVED, answer.err)
        if "error: " not in answer.err or answer.code not in (1, 2):
            return Outcome.LOST, f"exit code {answer.code}: {answer.err[-1000:]}"
        again = self._run(name)
        if again.code != 0 or "Traceback" in again.err:
            return Outcome.LOST, f"{answer.err[-1000:]}\nthe next start: {again.err[-2000:]}"
        return self._compare(name, Outcome.REFUSED, f"{answer.err}\nthe next start: {again.err}")

    def _compare(self, name: str, good: Outcome, said: str) -> tuple[Outcome, str]:
        # A folder that cannot be listed cannot be removed, but the error names it.
        left = [path for path in litter(self.place) if path.split("/")[0] not in said]
        found, expected = (CASES[name].result(self.worker, self.place), left), self._expected[name]
        is_warned = WARNED.search(said)
        if found == expected or (is_warned and _core(found) == _core(expected)):
            return good, said
        return Outcome.SILENT, f"{difference(expected, found)}\n{_short(said)}"

    def _run(self, name: str, failure: Failure | None = None) -> Answer:
        return self.worker.run(CASES[name].words(self.place), failure or Failure())


def litter(place: Path) -> list[str]:
    """Returns the names of temporary files and folders."""
    names = [str(path.relative_to(place)) for path in place.rglob("*")]
    return sorted(name for name in names if LITTER.search(name))


def _short(said: str) -> str:
    """Returns the lines of what was said that matter, and the last ones."""
    lines = said.splitlines()
    kept = [line for line in lines[:-5] if "warning" in line or "error" in line]
    return "\n".join([*kept, *lines[-5:]])


def _core(found: Any) -> Any:
    """Returns what may not differ where an earlier checkpoint is missing, and that was said.

    Training goes on from another step then, without the evaluation at the end of the start before.
    """
    result, left = found
    kept = {key: value for key, value in result.items() if not key.startswith("~")}
    if reports := kept.get("reports"):
        kept["reports"] = {n: [r for r in records if "loss" in r] for n, records in reports.items()}
    return kept, left


def difference(expected: Any, found: Any) -> str:
    """Returns where two values differ, as a line."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [key for key in expected | found if expected.get(key) != found.get(key)]
        return "; ".join(f"{k}: {difference(expected.get(k), found.get(k))}" for k in keys)
    if isinstance(expected, tuple) and isinstance(found, tuple):
        pairs = zip(expected, found, strict=True)
        return "; ".join(difference(one, other) for one, other in pairs if one != other)
    return f"{str(expected)[:300]} became {str(found)[:300]}"


# ---- the commands


def train_words(place: Path, *settings: str) -> list[Any]:
    """Returns the command that trains a tiny classifier for six steps."""
    corpus = f"data.corpus={place / 'corpus'}"
    config = [f"--config.{setting}" for setting in (*CLASSIFIER, *SPLITS, corpus, *settings)]
    return ["train.py", f"--config={place / 'tiny.py'}", f"--workdir={place / 'run'}", *config]


def make_sentences(worker: Worker, place: Path) -> None:
    """Writes a corpus of two classes and the configuration of a classifier."""
    write_sentences(place / "corpus")
    (place / "tiny.py").write_text(TASK.format(task="classification"))


def make_stopped(worker: Worker, place: Path) -> None:
    """Leaves a run that has come to half of its steps."""
    make_sentences(worker, place)
    _succeed(worker, train_words(place, "training.num_train_steps=4"))


def make_classifier(worker: Worker, place: Path) -> None:
    """Leaves a classifier, and a text whose lines are to be classified."""
    make_sentences(worker, place)
    _succeed(worker, train_words(place))
    (place / "text").write_text("a b x\nc d\n" * 20)


def make_translator(worker: Worker, place: Path) -> None:
    """Leaves a run of translation, a text to translate and a test set."""
    _succeed(worker, ["write run", place / "run"])
    (place / "corpus").mkdir()
    for name in ("text", "corpus/val.en", "corpus/val.de"):
        (place / name).write_text("w1 w2 w3\nw4 w5\n" * 8)


def make_pairs(worker: Worker, place: Path) -> None:
    """Writes a parallel corpus and the configuration of a translator."""
    corpus = write_corpus(place / "corpus", 60)
    (place / "tiny.py").write_text(PAIRS.format(corpus=corpus))


def _succeed(worker: Worker, words: list[Any]) -> None:
    answer = worker.run(words)
    assert answer.code == 0, answer.err


def run_result(worker: Worker, place: Path) -> Any:
    """Returns the reports, the parameters and the test scores of a run."""
    lines = (place / "run" / "metrics.jsonl").read_text().splitlines()
    reports = {}
    for record in map(json.loads, lines):
        kept = {key: value for key, value in record.items() if OF_A_RECORD.match(key)}
        kept = {key: value for key, value in kept.items() if not TIMES.search(key)}
        reports.setdefault(str(record["step"]), []).append(kept)
    return {"reports": reports, **params_of(worker, place / "run"), "~": results(worker, place)}


def params_of(worker: Worker, run: Path) -> dict[str, str]:
    """Returns the checkpoints of a run with the checksums of their parameters."""
    answer = worker.run(["parameters", run])
    kept, *others = answer.out.splitlines() or [""]
    return {"last": others[-1:], "~kept": kept, "~others": others, "~problems": answer.err}


def results(worker: Worker, place: Path) -> dict[str, bytes]:
    """Returns the files of the scores, but for the report, which shows times; each may differ."""
    folder = place / "run" / "results"
    files = [file for file in folder.rglob("*") if file.suffix in (".txt", ".jsonl", ".json")]
    return {f"~{file.relative_to(folder)}": file.read_bytes() for file in files}


def prepared(worker: Worker, place: Path) -> dict[str, bytes]:
    """Returns the files of the prepared corpora, but for the times of their files."""
    folder = place / "prepared_corpora"
    files = [file for file in folder.rglob("*") if file.is_file()]
    kept = [file for file in files if file.name not in ("verified.json", "lock")]
    return {str(file.relative_to(folder)): file.read_bytes() for file in kept}


def answers(place: Path) -> list[Any]:
    """Returns the command that answers each line of a text."""
    files = [f"--input={place / 'text'}", f"--output={place / 'answers'}", "--chunk_lines=8"]
    return ["eval.py", f"--workdir={place / 'run'}", *files]


def answered(worker: Worker, place: Path) -> dict[str, bytes]:
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
        lambda place: [
            *("eval.py", f"--workdir={place / 'run'}"),
            *("--split=val", f"--corpus={place / 'corpus'}"),
        ],
        results,
    ),
    "translate a file": Case(make_translator, answers, answered),
    "classify a file": Case(make_classifier, answers, answered),
    "export": Case(
        make_translator,
        lambda place: ["transformer-export", place / "run", place / "exported"],
        lambda worker, place: {"~": params_of(worker, place / "exported")},
    ),
    "prepare": Case(
        make_pairs,
        lambda place: [
            *("transformer-prepare", f"--config={place / 'tiny.py'}"),
            f"--workdir={place / 'run'}",
        ],
        prepared,
    ),
}
