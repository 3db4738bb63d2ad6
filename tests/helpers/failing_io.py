"""Files on which the n-th write, fsync, rename … fails, for the commands of one process.

`failing_io.c` stands between the process and libc. A `Worker` is started with it and runs commands
one after another: what they compile stays, so that a trial takes about a second.
"""

import concurrent.futures.thread
import ctypes
import json
import select
import shutil
import signal
import subprocess
import sys
import threading
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

from tests.helpers.scripts import HANGS, environment_of_scripts, start_words
from tests.helpers.xla_flags import CHEAP

SOURCE = Path(__file__).with_name("failing_io.c")
QUICK = CHEAP | {"PYTHONFAULTHANDLER": "1"}
KINDS = ["write", "fsync", "rename", "open", "read", "mkdir", "look"]  # look: open for reading
PROGRAMS = {  # the scripts and modules of commands
    "train.py": ["train.py"],
    "eval.py": ["eval.py"],
    "transformer-export": ["-m", "transformer.cli.commands.export"],
    "transformer-prepare": ["-m", "transformer.cli.commands.prepare"],
}
MODES = ["once", "from then on", "half"]  # half: half of the bytes, and from then on none


def compile_library(folder):
    """Compiles the library into a folder; returns its path, or None where it cannot be used."""
    compiler = sys.platform == "linux" and shutil.which("cc")
    library = folder / "failing_io.so"
    if compiler and not library.exists():
        flags = ["-shared", "-fPIC", "-O1", "-D_LARGEFILE64_SOURCE"]
        subprocess.run([compiler, *flags, "-o", library, SOURCE, "-ldl"], check=True)
    return library if compiler else None


@dataclass(frozen=True)
class Failure:
    """What fails: the `number`-th call of a kind with an error of `errno`; 0: none."""

    kind: str = "write"
    number: int = 0
    error: int = 0
    mode: str = "once"

    def settings(self, folder):
        """Returns the arguments of `failing_io_arm`; no call has the number -1."""
        number = self.number or -1
        mode = MODES.index(self.mode if self.number else "once")
        return str(folder), KINDS.index(self.kind), number, self.error, mode


@dataclass
class Answer:
    """What came of a command: its exit code, its outputs, and the calls that it made.

    counts: {kind: number of calls}. failed: the path of the first call that failed, or "".
    """

    code: int | None = None
    out: str = ""
    err: str = ""
    counts: dict[str, int] = field(default_factory=dict)
    failed: str = ""


class Worker:
    """A process that runs commands below a folder, on which calls may fail."""

    def __init__(self, library, folder):
        self._errors = TemporaryFile("w+", errors="replace")  # noqa: SIM115
        environment = {"JAX_COMPILATION_CACHE_DIR": str(library.parent / "programs")}
        environment |= environment_of_scripts() | {"LD_PRELOAD": str(library)} | QUICK
        words, pipes = ["-m", __name__, folder], {"stdin": subprocess.PIPE, "stderr": self._errors}
        self._process = start_words(words, env=environment, text=True, **pipes)

    def run(self, words, failure=Failure(), seconds=HANGS):
        """Runs a command while a call fails; the exit code is None if it does not end in time."""
        position = self._errors.seek(0, 2)
        request = {"words": [str(word) for word in words], "failure": asdict(failure)}
        print(json.dumps(request), file=self._process.stdin, flush=True)
        ready, _, _ = select.select([self._process.stdout], [], [], seconds)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self._process.send_signal(signal.SIGABRT)  # which shows where each thread is
            self._process.wait()
        answer = Answer(**json.loads(line)) if line else Answer(err="no answer: ")
        self._errors.seek(position)
        answer.err += self._errors.read()
        return answer

    def close(self):
        self._process.kill()
        self._process.communicate()


def run_alone(library, folder, words, failure, seconds=HANGS):
    """Runs a command as a process of its own while a call fails: as `Worker.run`."""
    settings = ":".join(map(str, failure.settings(folder)))
    environment = QUICK | {"LD_PRELOAD": library, "FAILING_IO": settings}
    words = [*PROGRAMS[words[0]], *words[1:]]
    process = start_words(words, env=environment, stdin=subprocess.DEVNULL)
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)
        out, err = process.communicate()
        process.returncode = None
    return Answer(process.returncode, out.decode(), err.decode(errors="replace"), failed="?")


def _save(words):
    """Saves three tiny states; returns an exit code as a command does."""
    import jax.numpy as jnp

    from transformer.checkpoint.checkpoints import Checkpoints
    from transformer.checkpoint.train_state import TrainState
    from transformer.cli.process import run_guarded

    def save():
        checkpoints = Checkpoints(Path(words[1]) / "checkpoints", keep=2)
        for step in (1, 2, 3):
            params = {"kernel": jnp.full((8, 8), step), "bias": jnp.full(8, step)}
            try:
                checkpoints.save(TrainState(jnp.array(step), params, {"mu": params}))
                if step == 3:
                    checkpoints.wait()
            except Exception as error:
                if step == 3:
                    raise ValueError(str(error)) from None
                print(f"warning: a checkpoint could not be written: {error}", file=sys.stderr)
        checkpoints.close()

    return run_guarded(save)


def _write_run(words):
    """Writes a translation run of random weights, as `random_runs` does."""
    from tests.helpers.random_runs import write_run

    write_run(Path(words[1]), steps=(20, 40))


def _show_parameters(words):
    """Prints a checksum of the parameters of each checkpoint of a run."""
    from transformer.checkpoint.checkpoints import Checkpoints
    from transformer.checkpoint.fingerprint import fingerprints

    checkpoints = Checkpoints(Path(words[1]) / "checkpoints", keep=9, read_only=True)
    print(checkpoints.steps(), checkpoints.best_step())
    for step in checkpoints.steps():
        try:
            print(step, fingerprints(checkpoints.load(step).params))
        except ValueError as error:  # as of a step whose removal failed half-way
            print(step, error)


def _end_threads():
    """Waits for threads, as the end of a process does; those of idle pools would end at once."""
    for thread in threading.enumerate():
        is_pool = getattr(thread, "_target", None) is concurrent.futures.thread._worker
        if thread is not threading.main_thread() and not thread.daemon and not is_pool:
            threading.Thread.join(thread)  # Orbax's own raises the error of its thread again


def _serve(folder):
    """Answers requests on standard input, in a process with the library."""
    from tests.helpers.commands import COMMANDS, call
    from transformer.cli.process import hear_errors_once

    COMMANDS.update({"save": _save, "write run": _write_run, "parameters": _show_parameters})
    hear_errors_once()
    library = ctypes.CDLL(None)
    library.failing_io_path.restype = ctypes.c_char_p
    answers = sys.stdout
    for line in sys.stdin:
        request = json.loads(line)
        below, *numbers = Failure(**request["failure"]).settings(folder)
        library.failing_io_arm(below.encode(), *numbers)
        try:
            code, out, err = call(*request["words"])
            code = code or 0
        except Exception:
            code, out, err = 1, b"", traceback.format_exc()
        _end_threads()
        failed = library.failing_io_path().decode(errors="replace")
        counts = {kind: library.failing_io_count(KINDS.index(kind)) for kind in KINDS}
        library.failing_io_arm(b"", 0, -1, 0, 0)
        answer = Answer(code, out.decode(errors="replace"), err, counts, failed)
        print(json.dumps(asdict(answer)), file=answers, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1])
