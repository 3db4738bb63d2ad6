"""A corpus that is learnt in seconds and the two scripts as a user starts them."""

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.helpers.xla_flags import QUICK_COMPILE
from transformer.workdir import WorkDir

ROOT = Path(__file__).resolve().parents[2]
HANGS = 1200  # seconds after which what a test waits for hangs; no test may depend on how many
PATCHED = """
import runpy, sys
patch, *sys.argv = sys.argv[1:]
exec(patch)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
QUICKLY = ["--config.decoding.beam_size=1", "--config.decoding.max_extra_length=0"]
QUICKLY += ["--config.data.max_validation_sentences=4", "--config.data.test_split=test[:20%]"]
SIGNAL_AT_CALL = """
import pkgutil, signal
from itertools import count
owner, calls = pkgutil.resolve_name({owner!r}), count(1)
function = owner.{name}

def function_or_signal(*args, **options):
    if next(calls) == {call}:
        signal.raise_signal({number})
    return function(*args, **options)

owner.{name} = function_or_signal
"""
CONFIG = """
from transformer.config import Config

def get_config():
    config = Config()
    config.model.d_model, config.model.d_ff = 32, 64
    config.model.num_heads, config.model.num_layers = 2, 1
    config.tokenizer.kind = "pieces"
    config.data.corpus, config.data.row_length = "{corpus}", 32
    config.data.validation_split = "val"
    config.optimizer.warmup_steps = 40
    config.optimizer.peak_learning_rate = 0.01
    config.model.dropout_rate = 0.05
    config.training.seed = 2  # of 0 to 3 the two last reach 99 BLEU, the others 77 and 89
    config.training.num_train_steps = 300
    config.training.batch_tokens = 512
    config.training.log_every = 1
    config.training.eval_every = 150
    config.training.checkpoint_every = 20
    config.decoding.max_extra_length = 4
    config.decoding.beam_size = 2
    config.decoding.batch_size = 4  # every size of batch is a program to compile
    return config
"""


def write_corpus(folder, num_train=400):
    """Digits to letters, reversed: `train`, `val` and `test` as en/de files. Returns `folder`."""
    rng = random.Random(0)
    folder.mkdir(parents=True, exist_ok=True)
    for split, count in (("train", num_train), ("val", 20), ("test", 20)):
        rows = [[rng.randrange(6) for _ in range(rng.randint(2, 8))] for _ in range(count)]
        sources = "".join(" ".join(map(str, row)) + "\n" for row in rows)
        targets = "".join(" ".join("abcdef"[d] for d in row[::-1]) + "\n" for row in rows)
        (folder / f"{split}.en").write_text(sources)
        (folder / f"{split}.de").write_text(targets)
    return folder


def write_config(folder):
    """A configuration of a tiny model on that corpus; returns its path."""
    path = folder / "tiny.py"
    path.write_text(CONFIG.format(corpus=write_corpus(folder / "corpus")))
    return path


@contextmanager
def signals_are_heard():
    """Processes that are started meanwhile ignore none, as they do below `nohup` or `&`."""
    with ExitStack() as stack:
        for number in (signal.SIGHUP, signal.SIGINT):
            stack.callback(signal.signal, number, signal.signal(number, signal.SIG_DFL))
        yield


def start(script, *arguments, patch="", **options):
    """Starts train.py or eval.py in the background, as from a shell.

    patch: a program that the process runs before the script, as one of `signal_at_call`.
    """
    words = [ROOT / script, *arguments]
    return start_words(["-c", PATCHED, patch, *words] if patch else words, **options)


def signal_at_call(number, function, call):
    """Returns a patch for `start`: the process sends itself a signal at a call of a function.

    function: by its full name. call: which of its calls, from 1; the signal comes before it begins.
    """
    owner, _, name = function.rpartition(".")
    return SIGNAL_AT_CALL.format(owner=owner, name=name, call=call, number=int(number))


def wait_for(is_reached, *processes):
    """Waits until is_reached() is true; fails, with what they said, if a process ends before."""
    end = time.monotonic() + HANGS
    while not is_reached():
        has_ended = any(process.poll() is not None for process in processes)
        if (has_ended and not is_reached()) or time.monotonic() > end:
            for process in processes:
                process.kill()
            pytest.fail(f"what the test waits for did not come: {finish(processes)}")
        time.sleep(0.01)


def finish(processes, timeout=HANGS):
    """[(exit code, what it said)] of processes; none is left behind."""
    try:
        said = [process.communicate(timeout=timeout)[1].decode() for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def start_words(words, env=(), **options):
    """Starts Python with these arguments in the background."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    usual = {"cwd": ROOT, "env": environment_of_scripts() | dict(env)} | pipes
    return subprocess.Popen([sys.executable, *map(str, words)], **usual | options)


def environment_of_scripts():
    """The environment of a process of one device."""
    return os.environ | {"PYTHONPATH": str(ROOT), "XLA_FLAGS": QUICK_COMPILE}


def run(script, *arguments, stdin=b"", **options):
    """Runs it to its end: (exit code, standard output, standard error), the outputs as bytes."""
    return _end(start(script, *arguments, stdin=subprocess.PIPE, **options), stdin)


def run_python(program, *arguments, timeout=HANGS, **options):
    """Runs a program that is given as text, to its end: as `run`."""
    return _end(start_words(["-c", program, *arguments], **options), timeout=timeout)


def _end(process, stdin=None, timeout=HANGS):
    try:
        out, err = process.communicate(stdin, timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err.decode()


def losses(workdir):
    """Step -> training loss of metrics.jsonl, without a line that a kill cut short."""
    records = WorkDir(workdir).read_metrics()
    return {record["step"]: record["loss"] for record in records if "loss" in record}
