"""What is said, the pace of work, and the phases of a command."""

import io
import threading

import pytest

from tests.helpers.terminal import Terminal, without_commands_of_row
from transformer import console
from transformer.console import ERASE, UNWRAPPED, LiveLine, Pace, escaped, keeping_log, say


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self):
        return self.now


def test_pace_counts_what_was_done_since_the_start():
    """Catches an estimate that includes the first step, which compiles for a minute, and a division
    by zero on a coarse clock."""
    clock = Clock()
    pace = Pace(clock)
    clock.now = 60.0
    pace.add(1)
    assert pace.per_second() == 0.0 and pace.time_left(10) == ""
    pace.add(20)
    assert pace.time_left(1) == "0 s left" and pace.time_left(0) == ""
    clock.now = 70.0
    assert pace.per_second() == 2.0 and pace.time_left(240) == "2 min 00 s left"


def test_numbers_and_durations_read_well():
    """Catches "1 batches", "1.0 minutes" of a setting that may be a fraction, and 60 seconds of a
    minute, or 60 minutes of an hour, after rounding."""
    numbers = [console.quantity(*pair) for pair in ((1, "pair"), (2000, "batch"), (1.0, "minute"))]
    assert numbers == ["1 pair", "2,000 batches", "1 minute"]
    durations = {"9 s": 9, "1 min 15 s": 75, "1 h 02 min": 3725, "1 h 00 min": 3599.6}
    assert [*map(console.format_seconds, durations.values())] == [*durations]


def test_a_log_has_dates_what_was_said_and_why_it_ended(capsys):
    """Catches a log without the command, the time of a stall or the error that ended the run, and
    the same of a cluster, where standard error is a file, if a command asks for dates there."""
    kept = []
    with pytest.raises(KeyError), keeping_log(kept.append, "train.py"):
        say("one\ntwo")
        raise KeyError("three")
    say("after the run")
    console.live_line.has_stamps = True
    say("four")
    *plain, stamped = capsys.readouterr().err.splitlines()
    assert plain == ["one", "two", "after the run"]
    assert stamped[4] + stamped[13] + stamped[19:] == "-: four"
    lines = "".join(kept).splitlines()
    assert [line[20:] for line in lines[:4]] == [
        "train.py", "one", "two", "Traceback (most recent call last):",
    ]  # fmt: skip
    assert all(line[4] == line[7] == "-" and line[13] == line[16] == ":" for line in lines)
    assert lines[-1].endswith("KeyError: 'three'")


# ---- lines, and the row below them


def test_a_phase_is_live_on_a_terminal_and_leaves_nothing():
    """Catches a phase that stays on the screen when it is over, a count without the rest, and a
    name with a line break that leaves a row behind at each tick."""
    stream, clock = Terminal(), Clock()
    line = LiveLine(stream, clock)
    with line.phase("validating"):
        with line.phase("translating", 100) as inner:
            for clock.now in (5.0, 6.0):
                inner.advance(10)
            line.tick()
            assert stream.row() == "validating: translating 20/100 (6 s, 8 s left)"
        assert stream.row() == "validating (6 s)"
    with line.phase("a.en", 9), line.phase("translating"):
        assert stream.row() == "a.en 0/9: translating"
    with line.phase("restoring a\nb"):
        assert stream.row() == "restoring a\\nb"
    assert stream.row() == "" and "\n" not in stream.getvalue()


def test_a_file_gets_a_line_of_a_phase_where_nothing_else_is_said():
    """Catches a log that fills with phases of a moment, and one that is silent for minutes."""
    stream, clock = io.StringIO(), Clock()
    line = LiveLine(stream, clock)
    for _ in range(3):
        with line.phase("reading"):
            clock.now += 3
    clock.now += 60
    with line.phase("compiling"):
        for _ in range(29):
            clock.now += 1
            line.tick()
    assert stream.getvalue().splitlines() == ["compiling (10 s)", "compiling (20 s)"]


def test_a_phase_is_shown_where_a_command_asks_for_it(capsys, monkeypatch):
    """Catches a library that writes to the standard error of a program that calls it."""
    monkeypatch.setattr(console, "SHOW_EVERY", (0.0, 0.0))
    with console.phase("in a program"):
        pass
    with console.showing_phases():
        assert list(console.counted("ab", "in a command", 2)) == ["a", "b"]
        thread = threading.Thread(target=lambda: list(console.counted("c", "in a thread", 1)))
        thread.start()
        thread.join()
    said = capsys.readouterr().err
    assert said.startswith("in a command 0/2\n")
    assert "in a program" not in said and "in a thread" not in said
    assert not [thread for thread in threading.enumerate() if thread.name == "phases"]


def test_a_row_never_wraps_and_stays_above_what_is_said():
    """Catches a line that is longer than the terminal, of which each report leaves a row behind."""
    stream, text = Terminal(), "x" * 200
    line = LiveLine(stream, Clock())
    for step in (1, 2):
        line.show(f"step {step}  {text}")
    assert stream.getvalue().endswith(UNWRAPPED.format(f"step 2  {text}"))
    assert "\n" not in stream.getvalue()
    line.say("done")
    assert stream.getvalue().endswith(f"{ERASE}step 2  {text}\ndone\n")


def test_a_terminal_that_has_gone_ends_nothing():
    """Catches a run that ends because its terminal was closed."""
    stream = io.StringIO()
    line = LiveLine(stream)
    stream.close()
    line.show("step 1")
    line.say("done")


HOSTILE = "a\x1b]0;title\x07 \r over \x9b2J \u202etxt.exe\u2066 \x7f \udc9b b"
RAW = set(HOSTILE) - set(escaped(HOSTILE))


def test_texts_cannot_command_a_terminal():
    """Catches sentences and names that clear the screen, rewrite a line or turn its order."""
    assert set("\x1b\x07\r\x9b\u202e\u2066\x7f\udc9b") == RAW
    assert escaped("a\tb\n\u200fשלום 👩\u200d🔬 e\u0301") == "a\tb\n\u200fשלום 👩\u200d🔬 e\u0301"
    for stream in (Terminal(), io.StringIO()):
        line, log = LiveLine(stream), []
        line.log = log.append
        line.say(HOSTILE)
        line.show(HOSTILE)
        with line.phase(HOSTILE):
            pass
        line.close()
        shown = without_commands_of_row(stream.getvalue())
        assert not RAW & set(shown + "".join(log))
        assert "\\x1b]0;title\\x07 \\r over" in stream.getvalue()
