"""Lets one file operation of a command fail, for every operation of it, in turn or for good.

The command must go on to the right result or end in a sentence; the next start must give the right
result, and leave nothing behind.
"""

import errno
import itertools
import random
import re
import shutil

from tests.helpers.failing_io import PROGRAMS, Failure, Worker, compile_library, run_alone
from tests.helpers.scripts import wait_for
from tests.torture import Outcome, Trial
from tests.torture._commands import CASES
from transformer.exit_codes import RESUMABLE

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
ALONE_EVERY = 12  # trials, one of which is a process of its own


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
    ways = {}
    for name, failure in rng.sample(failures, len(failures)):
        ways.setdefault((name, failure.kind, failure.number), []).append((name, failure))
    rounds = itertools.zip_longest(*ways.values())
    return [failure for one in rounds for failure in one if failure]


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
        self._expected[name] = case.result(self.worker, self.place), litter(self.place)
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
        harm = f"{name}: {failure.kind} {failure.number} {failure.mode} "
        file = answer.failed.removeprefix(str(self.place))
        harm += f"({errno.errorcode[failure.error]}, {file})"
        return Trial(harm, *self._judge(name, answer))

    def _remove_place(self):
        """Removes the folder of the trial before, in which a thread of the worker may still write.

        It would have ended with a process of its own.
        """

        def is_removed():
            shutil.rmtree(self.place, ignore_errors=True)
            return not self.place.exists()

        wait_for(is_removed)

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
        found, expected = (CASES[name].result(self.worker, self.place), left), self._expected[name]
        is_warned = WARNED.search(said)
        if found == expected or (is_warned and _core(found) == _core(expected)):
            return good, said
        return Outcome.SILENT, f"{difference(expected, found)}\n{said[-2000:]}"

    def _run(self, name, **options):
        answer = self.worker.run(CASES[name].words(self.place), **options)
        if answer.code is None:  # it was killed
            self.worker.close()
            self.worker = Worker(self._library, self.place)
        return answer


def litter(place):
    """Returns the names of temporary files and folders."""
    names = [str(path.relative_to(place)) for path in place.rglob("*")]
    return sorted(name for name in names if LITTER.search(name))


def _core(found):
    """Returns what may not differ where an earlier checkpoint is missing, and that was said.

    Training goes on from another step then, without the evaluation at the end of the start before.
    """
    result, left = found
    kept = {key: value for key, value in result.items() if not key.startswith("~")}
    if reports := kept.get("reports"):
        kept["reports"] = {n: [r for r in records if "loss" in r] for n, records in reports.items()}
    return kept, left


def difference(expected, found):
    """Returns where two values differ, as a line."""
    if isinstance(expected, tuple) and isinstance(found, tuple):
        expected, found = dict(enumerate(expected)), dict(enumerate(found))
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = [key for key in expected | found if expected.get(key) != found.get(key)]
        return "; ".join(f"{k}: {difference(expected.get(k), found.get(k))}" for k in keys)
    return f"{str(expected)[:300]} became {str(found)[:300]}"
