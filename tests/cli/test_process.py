"""How a command ends: every mistake as one line, every defect with its traceback."""

import logging
import signal
import sys
from unittest.mock import Mock

import jax
import pytest
from jax.errors import JaxRuntimeError

from transformer.cli import process
from transformer.cli.process import explain_error, run_guarded
from transformer.exit_codes import DONE, INTERRUPTED, RESUMABLE, WRONG_INPUT
from transformer.parallel.stopping import Interruption


def run_raising(error):
    try:
        return run_guarded(Mock(side_effect=error))
    except SystemExit as end:
        return end.code


def test_mistakes_and_ends_have_their_codes(monkeypatch, capsys):
    """Catches a pipe to head that fails, and a defect that passes for a mistake of the user's."""
    assert run_guarded(lambda: 3) == 3
    assert run_raising(ValueError("not so")) == WRONG_INPUT
    assert capsys.readouterr().err == "error: not so\n"
    assert run_raising(KeyboardInterrupt()) == INTERRUPTED
    assert run_raising(Interruption(signal.SIGINT)) == INTERRUPTED
    assert run_raising(Interruption(signal.SIGTERM)) == RESUMABLE
    assert "stopped by SIGTERM; give the same command" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    assert run_raising(BrokenPipeError()) == DONE and sys.stdout is None
    for defect in (RuntimeError("x"), KeyError("x"), OSError("of a library")):
        with pytest.raises(type(defect)):
            run_raising(defect)


def test_standard_output_that_is_full(monkeypatch, capsys):
    """Catches a traceback, and what Python complains of again when it ends."""
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(process, "say", lambda *_, **__: None)
        with pytest.raises(SystemExit) as end:
            run_guarded(lambda: print("scores", flush=True))
        assert end.value.code == WRONG_INPUT and sys.stdout is None
        with pytest.raises(OSError, match="No space"):
            full.close()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("not so")])
def test_a_run_that_is_given_up_ends_at_once(error, monkeypatch, capsys):
    """Catches threads that still save, and their tracebacks, after a second Ctrl-C."""
    ended = []
    monkeypatch.setattr(process.os, "_exit", ended.append)
    monkeypatch.setattr(process, "end_on_signals", lambda: None)
    monkeypatch.setattr(process.faulthandler, "enable", lambda: None)

    def work():
        try:
            raise error
        except KeyboardInterrupt:
            logging.getLogger("absl").exception("a thread was interrupted")
            raise

    with pytest.raises(SystemExit):
        process.run_process(lambda argv: run_guarded(work))
    gave_up = isinstance(error, KeyboardInterrupt)
    assert ended == ([INTERRUPTED] if gave_up else [])
    line = capsys.readouterr().err
    assert line[20:] == "interrupted\n" if gave_up else line == "error: not so\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b cannot be read or written: Permi"),
        (OSError(5, "Input/output error"), "standard output, cannot be read or written: Input/out"),
        (MemoryError("8 TiB"), "The memory of this machine is not enough (8 TiB)."),
        (JaxRuntimeError("RESOURCE_EXHAUSTED: 2 B\nmore"), "(RESOURCE_EXHAUSTED: 2 B). To train"),
    ],
)
def test_what_the_user_can_mend_gets_a_sentence(error, said):
    """Catches a traceback for a file that may not be read, and for a batch that is too large."""
    text, code = explain_error(error)
    assert code == WRONG_INPUT and said in text and "\n" not in text


def test_a_lost_host_is_told_from_a_defect(monkeypatch):
    """Catches a run that a scheduler does not start again, and a defect that it does."""
    lost = JaxRuntimeError("UNAVAILABLE: heartbeat")
    with pytest.raises(JaxRuntimeError, match="UNAVAILABLE"):
        explain_error(lost)  # alone, no other host can be lost
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    assert explain_error(lost)[1] == RESUMABLE
    with pytest.raises(JaxRuntimeError, match="INTERNAL"):
        explain_error(JaxRuntimeError("INTERNAL: a bug"))


def test_other_hosts_learn_of_an_end_at_once(monkeypatch):
    """Catches hosts that wait for one that has ended until it counts as lost."""
    ended = []
    monkeypatch.setattr(process.os, "_exit", ended.append)
    monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
    for count in (1, 2):
        monkeypatch.setattr(jax, "process_count", lambda count=count: count)
        with pytest.raises(SystemExit):
            process.exit_process(7)
    assert ended == [7]
