"""Signals are noted or raise at once; patience counts evaluations; exit codes say why."""

import os
import signal

import pytest

from transformer.signals import INTERRUPTED, RESUMABLE, Interruption, Stopping

CAUGHT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


@pytest.fixture
def stopping():
    """A `Stopping` that catches signals; the handlers of the test run are put back afterwards."""
    before = {number: signal.getsignal(number) for number in CAUGHT}
    stopping = Stopping(patience=2)
    stopping.catch_signals()
    yield stopping
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, RESUMABLE), (signal.SIGINT, INTERRUPTED)]
)
def test_signal_is_noted_and_gives_the_exit_code(number, code, stopping):
    """Catches a preempted run that a scheduler does not restart, or a Ctrl-C that it does."""
    os.kill(os.getpid(), number)
    assert stopping.signal == number
    assert stopping.exit_code == code


@pytest.mark.parametrize(
    ("before", "noted"), [(signal.SIG_IGN, None), (signal.SIG_DFL, signal.SIGHUP)]
)
def test_hangup_stops_a_run_unless_under_nohup(before, noted, stopping):
    """Catches a run that ends with its terminal unsaved, or although it was started by nohup."""
    signal.signal(signal.SIGHUP, before)
    stopping.catch_signals()
    os.kill(os.getpid(), signal.SIGHUP)
    assert stopping.signal == noted


def test_second_interrupt_ends_at_once(stopping):
    """Catches a run that ignores Ctrl-C while it saves, and a third that breaks its clean-up."""
    os.kill(os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGINT)


def test_evaluation_is_cut_short_where_that_is_allowed(stopping):
    """Catches a preempted machine that finishes its evaluation, is killed, and saves nothing."""
    with pytest.raises(Interruption), stopping.at_once():
        os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Interruption), stopping.at_once():  # it came before the block
        pytest.fail("the block has begun")


def test_on_several_hosts_a_block_is_finished_together(stopping):
    """Catches one host that leaves an evaluation in which the others wait for it."""
    stopping.is_alone = False
    with stopping.at_once():
        os.kill(os.getpid(), signal.SIGTERM)
    assert stopping.signal == signal.SIGTERM


def test_patience_counts_evaluations_since_the_best():
    """Catches an equal score taken for a better one, and patience=0 taken for no patience."""
    stopping = Stopping(patience=2)
    for score, converged in (
        (1, False),
        (3, False),
        (2, False),
        (3.5, False),
        (3, False),
        (3.5, True),
    ):
        stopping.record_score(score)
        assert stopping.has_converged == converged
    endless = Stopping(patience=0)
    for _ in range(5):
        endless.record_score(0.0)
    assert not endless.has_converged
