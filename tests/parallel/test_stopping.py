"""Signals are noted or end a command at once; patience counts evaluations."""

import math
import os
import signal
import subprocess

import pytest

from tests.helpers.scripts import finish, signals_are_heard, start
from transformer.exit_codes import INTERRUPTED, RESUMABLE
from transformer.parallel.stopping import Interruption, Stopping


def test_a_signal_is_noted_and_a_second_interrupt_ends_at_once():
    """Catches a preempted run that a scheduler does not restart, or a Ctrl-C that it does, a run
    that ignores Ctrl-C while it saves, and a third that breaks its clean-up."""
    stopping = Stopping(patience=2)
    with stopping.noting_signals():
        for number, code in ((signal.SIGTERM, RESUMABLE), (signal.SIGINT, INTERRUPTED)):
            os.kill(os.getpid(), number)
            assert (stopping.signal, stopping.exit_code) == (number, code)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(
    ("before", "noted"), [(signal.SIG_IGN, None), (signal.SIG_DFL, signal.SIGHUP)]
)
def test_hangup_stops_a_run_unless_under_nohup(before, noted):
    """Catches a run that ends with its terminal unsaved, or although it was started by nohup, and
    handlers that outlive it."""
    signal.signal(signal.SIGHUP, before)
    stopping = Stopping(patience=2)
    with stopping.noting_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert stopping.signal == noted and signal.getsignal(signal.SIGHUP) == before


def test_patience_counts_evaluations_since_the_best():
    """Catches an equal score taken for a better one, a NaN that nothing is better than, and
    patience=0 taken for no patience."""
    stopping, endless = Stopping(patience=2), Stopping(patience=0)
    converged = []
    for score in (math.nan, 1, 3, 2, 3.5, 3, 3.5):
        stopping.record_score(score)
        endless.record_score(0.0)
        converged.append(stopping.has_converged)
    assert converged == [False] * 6 + [True] and not endless.has_converged


STOP_AT_IMPORT = """
import os

class StopAtImport:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("importing", flush=True)
            sys.stdin.read()  # a signal ends the process here
            os._exit(99)

sys.meta_path.insert(0, StopAtImport())
"""


@pytest.mark.parametrize(
    "module", ["transformer.cli.commands.train", "jax", "transformer.training.run"]
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_command_that_is_importing_ends_in_one_sentence(number, module, tmp_path):
    """Catches tracebacks of KeyboardInterrupt and ImportError, and a signal that is lost."""
    with signals_are_heard():
        process = start(
            "train.py", f"--workdir={tmp_path / 'run'}", "--config.training.num_train_steps=1",
            patch=STOP_AT_IMPORT.format(module=module), stdin=subprocess.PIPE,
        )  # fmt: skip
    said = process.stdout.readline()
    process.send_signal(number)
    ((code, err),) = finish([process])
    assert (code, said) == (INTERRUPTED if number == signal.SIGINT else RESUMABLE, b"importing\n")
    assert err.splitlines()[-1] == str(Interruption(number)) and "Traceback" not in err
