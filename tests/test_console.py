"""The pace of work and the time that is left."""

import pytest

from transformer.console import Pace, format_seconds


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
    assert pace.time_left(1) == "0 s left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(9, "9 s"), (75, "1 min 15 s"), (3725, "1 h 02 min"), (3599.6, "1 h 00 min")],
)
def test_durations_read_well(seconds, text):
    """Catches 60 seconds of a minute, and 60 minutes of an hour, after rounding."""
    assert format_seconds(seconds) == text
