"""What is said, the pace of work, and the phases of a command."""

import io
import sys
import threading

import pytest

from tests.helpers.terminal import Terminal
from transformer import console
from transformer.console import Pace, PhaseDisplay, format_seconds, keeping_log, quantity, say
from transformer.terminal import LiveLine


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_pace_counts_what_was_done_since_the_start():
    """Catches an estimate that includes the first step, which compiles for a minute."""
    clock = Clock()
    pace = Pace(clock)
    clock.now = 60.0
    pace.add(1)
    pace.start()
    assert pace.per_second() == 0.0 and pace.time_left(10) == ""
    clock.now = 70.0
    pace.add(20)
    pace.start()
    assert pace.per_second() == 2.0
    assert pace.time_left(240) == "2 min 00 s left"


def test_pace_of_work_that_takes_no_time_is_a_number():
    """Catches a division by zero on a coarse clock."""
    pace = Pace(Clock())
    pace.start()
    pace.add(1)
    assert pace.time_left(1) == "0 s left" and pace.time_left(0) == ""


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [(1, "batch", "1 batch"), (2000, "batch", "2,000 batches"), (1.0, "minute", "1 minute")],
)
def test_numbers_agree_with_their_nouns(number, noun, text):
    """Catches "1 batches", and "1.0 minutes" of a setting that may be a fraction."""
    assert quantity(number, noun) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9, "9 s"), (75, "1 min 15 s"), (3725, "1 h 02 min"), (3599.6, "1 h 00 min")],
)
def test_durations_read_well(seconds, text):
    """Catches 60 seconds of a minute, and 60 minutes of an hour, after rounding."""
    assert format_seconds(seconds) == text


def test_a_log_has_dates_what_was_said_and_why_it_ended():
    """Catches a log without the command, the time of a stall or the error that ended the run."""
    kept = []
    with pytest.raises(KeyError), keeping_log(kept.append, "train.py"):
        say("one\ntwo")
        raise KeyError("three")
    say("after the run")
    lines = "".join(kept).splitlines()
    assert [line[20:] for line in lines[:4]] == [
        "train.py", "one", "two", "Traceback (most recent call last):",
    ]  # fmt: skip
    assert all(line[4] == line[7] == "-" and line[13] == line[16] == ":" for line in lines)
    assert lines[-1].endswith("KeyError: 'three'")


@pytest.mark.parametrize(("is_typed", "said"), [(True, "Type a text per line"), (False, "")])
def test_a_person_is_told_what_to_type(is_typed, said, monkeypatch, capsys):
    """Catches a command that waits for input without a word, and a prompt in the log of a pipe."""
    monkeypatch.setattr(sys, "stdin", Terminal() if is_typed else io.StringIO())
    console.ask_for_lines("a text")
    assert capsys.readouterr().err.partition(";")[0].strip() == said


def phases(stream):
    """(display of phases on a stream, its clock, which only the test moves)."""
    clock = Clock()
    return PhaseDisplay(LiveLine(stream), clock), clock


def test_a_phase_is_live_on_a_terminal_and_leaves_nothing():
    """Catches a phase that stays on the screen when it is over, and a count without the rest."""
    stream = Terminal()
    display, clock = phases(stream)
    with display.lasting(console.Phase("validating", 0, clock)):
        inner = console.Phase("translating", 100, clock)
        with display.lasting(inner):
            for clock.now in (5.0, 6.0):
                inner.advance(10)
            display.show()
            assert stream.row() == "validating: translating 20/100 (6 s, 8 s left)"
        assert stream.row() == "validating (6 s)"
    assert stream.row() == "" and "\n" not in stream.getvalue()


def test_a_file_gets_a_line_of_a_phase_that_takes_long(monkeypatch):
    """Catches a log that fills with phases of a moment, and one that is silent for minutes."""
    monkeypatch.setattr(console, "TICK", 1e9)  # only the test looks
    stream = io.StringIO()
    display, clock = phases(stream)
    for _ in range(3):
        with display.lasting(console.Phase("reading", 0, clock)):
            clock.now += 3
    with display.lasting(console.Phase("on any host", 0, clock), is_logged=False):
        clock.now += 30
        display.show()
    assert stream.getvalue() == ""
    with display.lasting(console.Phase("compiling", 0, clock)):
        for _ in range(60):
            clock.now += 1
            display.show()
    said = [f"compiling ({seconds})" for seconds in ("4 s", "19 s", "34 s", "49 s")]
    assert stream.getvalue().splitlines() == said


def test_a_phase_is_shown_where_a_command_asks_for_it(capsys, monkeypatch):
    """Catches a library that writes to the standard error of a program that calls it."""
    monkeypatch.setattr(console, "FIRST_REMARK", 0.0)
    with console.phase("in a program"):
        pass
    with console.showing_phases():
        assert list(console.counted("ab", "in a command", 2)) == ["a", "b"]
        thread = threading.Thread(target=lambda: list(console.counted("c", "in a thread", 1)))
        thread.start()
        thread.join()
    assert capsys.readouterr().err.startswith("in a command 0/2\n")
    assert not [thread for thread in threading.enumerate() if thread.name == "phases"]
