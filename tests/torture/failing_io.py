"""Lets one file operation of a command fail, for every operation of it, in turn or for good.

The command must go on to the right result or end in a sentence; the next start must give the right
result, and leave nothing behind.
"""

import errno
import random
import re
import shutil
from collections import Counter, namedtuple

from tests.helpers.failing_io import PROGRAMS, Failure, Worker, compile_library, run_alone
from tests.helpers.scripts import CONFIG as PAIRS
from tests.helpers.scripts import wait_for, write_corpus
from tests.helpers.tiny_runs import CONFIG as TASK
from tests.helpers.tiny_runs import SETTINGS, SPLITS, write_sentences
from tests.torture import Outcome, Trial
from transformer.exit_codes import RESUMABLE
from transformer.workdir import WorkDir

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
WARNED = re.compile(
    r"checkpoint( before step \d+)? could not be written|warning: Checkpoint \d+ cannot be used"
)
LEFT = "files left behind"  # in a result
ALONE_EVERY = 12  # trials, one of which is a process of its own
CLASSIFIER = [f"{name}={value}" for name, value in SETTINGS.items()]
CLASSIFIER += ["training.num_train_steps=6", "training.eval_every=3", "training.log_every=1"]
CLASSIFIER += ["training.checkpoint_every=2", "training.keep_checkpoints=2"]
CLASSIFIER += ["tokenizer.kind=characters"]
OF_A_RECORD = re.compile("loss|gradient_norm|validation_|num_train_steps|step")
TIMES = re.compile("seconds|_per_second|hours")
# make(worker, folder) writes what is there before a command, words(folder) is the command, and
# result(worker, folder) must be equal after any failure.
Case = namedtuple("Case", "make words result")


def train_words(place, *settings):
    """Returns the command that trains a tiny classifier for six steps."""
    corpus = f"data.corpus={place / 'corpus'}"
    config = [f"--config.{setting}" for setting in (*CLASSIFIER, *SPLITS, corpus, *settings)]
    return ["train.py", f"--config={place / 'tiny.py'}", f"--workdir={place / 'run'}", *config]


def make_sentences(worker, place):
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
    corpus = write_corpus(place / "corpus", 60)
    (place / "tiny.py").write_text(PAIRS.format(corpus=corpus))


def _succeed(worker, words):
    answer = worker.run(words)
    assert answer.code == 0, answer.err


def run_result(worker, place):
    """Returns the reports, the parameters and the test scores of a run."""
    reports = {}
    for record in WorkDir(place / "run").read_metrics():
        kept = {k: v for k, v in record.items() if OF_A_RECORD.match(k) and not TIMES.search(k)}
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


def prepared(worker, place):
    files = [file for file in (place / "prepared_corpora").rglob("*") if file.is_file()]
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


def answers(place):
    """Returns the command that answers each line of a text."""
    files = [f"--input={place / 'text'}", f"--output={place / 'answers'}", "--chunk_lines=8"]
    return ["eval.py", f"--workdir={place / 'run'}", *files]


def answered(worker, place):
    return {"~answers": (place / "answers").read_bytes()}


CASES = {
    "save": Case(
        lambda *_: None,
        lambda place: ["save", place / "run"],
        lambda worker, place: params_of(worker, place / "run"),
    ),
    "train": Case(make_sentences, train_words, run_result),
    "resume": Case(make_stopped, train_words, run_result),
    "score": Case(
        make_translator,
        lambda place: [*answers(place)[:2], "--split=val", f"--corpus={place / 'corpus'}"],
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
        lambda place: ["transformer-prepare", *train_words(place)[1:3]],
        prepared,
    ),
}


def trials(folder, seed, names=CASES):
    """Yields the trials of all commands, or of those that are named, in random order.

    Every call fails in one way before any fails in another. There are none without Linux and a C
    compiler.
    """
    library = compile_library(folder)
    if library is None:
        return
    rig = Rig(library, folder)
    try:
        failures = [(name, failure) for name in names for failure in rig.failures(name)]
        for number, (name, failure) in enumerate(each_call_first(random.Random(seed), failures)):
            if trial := rig.try_out(name, failure, number % ALONE_EVERY == ALONE_EVERY - 1):
                yield trial
    finally:
        rig.worker.close()


def each_call_first(rng, failures):
    """Returns (command, failure) in random order: one of each call, then another of each, …

    For calls a and b that may fail in three and two ways: a2 b1, b2 a3, a1.
    """
    ways = Counter()

    def way(failure):
        call = failure[0], failure[1].kind, failure[1].number
        ways[call] += 1
        return ways[call]

    return sorted(rng.sample(failures, len(failures)), key=way)


class Rig:
    """A worker and the folder in which each trial begins as its case does."""

    def __init__(self, library, folder):
        self._library, self._templates = library, folder / "templates"
        self.place, self._expected = folder / "trial", {}
        self.worker = Worker(library, self.place)

    def failures(self, name):
        """Runs a case undisturbed; returns all that can fail in it."""
        case, template = CASES[name], self._templates / name
        self._remove_place()
        self.place.mkdir()
        case.make(self.worker, self.place)
        shutil.copytree(self.place, template)
        answer = self._run(name)
        assert answer.code == 0, answer.err
        self._expected[name] = case.result(self.worker, self.place) | {LEFT: litter(self.place)}
        return [
            Failure(kind, number, error, mode)
            for kind, count in answer.counts.items()
            for number in range(1, count + 1)
            for error in ERRORS[kind]
            for mode in (["once"] if error == errno.EINTR else ["once", "from then on", "half"])
            if mode != "half" or kind == "write"
        ]

    def try_out(self, name, failure, is_alone):
        """Runs a case with a failure, and then again; None if it came to no failure.

        is_alone: whether the first time is a process of its own, if the case is a command.
        """
        self._remove_place()
        shutil.copytree(self._templates / name, self.place)
        words = [str(word) for word in CASES[name].words(self.place)]
        if is_alone and words[0] in PROGRAMS:
            answer = run_alone(str(self._library), self.place, words, failure)
        else:
            answer = self._run(name, failure=failure)
        if answer.code is not None and not answer.failed:
            return None
        call = f"{failure.kind} {failure.number} {failure.mode} {errno.errorcode[failure.error]}"
        file = answer.failed.removeprefix(str(self.place))
        return Trial(f"{name}: {call} ({file})", *self._judge(name, answer))

    def _remove_place(self):
        """Removes the folder of the trial before, in which a thread of the worker may still write.

        It would have ended with a process of its own.
        """
        wait_for(lambda: shutil.rmtree(self.place, ignore_errors=True) or not self.place.exists())

    def _judge(self, name, answer):
        if answer.code is None:
            return Outcome.LOST, f"no end: {answer.err[-9000:]}"
        if "Traceback" in answer.err:
            return Outcome.LOST, answer.err[-3000:]
        if answer.code == 0:
            return self._compare(name, Outcome.SURVIVED, answer.err)
        if "error: " not in answer.err or answer.code not in (1, 2, RESUMABLE):
            return Outcome.LOST, f"exit code {answer.code}: {answer.err[-1000:]}"
        again = self._run(name)
        if again.code != 0 or "Traceback" in again.err:
            return Outcome.LOST, f"{answer.err[-1000:]}\nthe next start: {again.err[-2000:]}"
        return self._compare(name, Outcome.REFUSED, f"{answer.err}\nthe next start: {again.err}")

    def _compare(self, name, good, said):
        # A folder that cannot be listed cannot be removed, but the error names it.
        left = [path for path in litter(self.place) if path.split("/")[0] not in said]
        found, expected = CASES[name].result(self.worker, self.place), self._expected[name]
        found[LEFT] = left
        is_warned = WARNED.search(said)
        if found == expected or (is_warned and _core(found) == _core(expected)):
            return good, said
        changed = {key for key in found | expected if found.get(key) != expected.get(key)}
        differences = [f"{k}: {expected.get(k)} became {found.get(k)}"[:600] for k in changed]
        return Outcome.SILENT, "; ".join([*differences, said[-2000:]])

    def _run(self, name, **options):
        answer = self.worker.run(CASES[name].words(self.place), **options)
        if answer.code is None:  # it was killed
            self.worker.close()
            self.worker = Worker(self._library, self.place)
        return answer


def litter(place):
    names = [str(path.relative_to(place)) for path in place.rglob("*")]
    return sorted(name for name in names if LITTER.search(name))


def _core(found):
    """Returns what may not differ where an earlier checkpoint is missing, and that was said.

    Training goes on from another step then, without the evaluation at the end of the start before.
    """
    kept = {key: value for key, value in found.items() if not key.startswith("~")}
    if reports := kept.get("reports"):
        kept["reports"] = {n: [r for r in records if "loss" in r] for n, records in reports.items()}
    return kept
