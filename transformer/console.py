"""What a person reads while a command runs: lines on standard error, results on standard output."""

import shlex
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TextIO


class LiveLine:
    """A line that is rewritten on a terminal; in a file, one line below the other."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._is_open = stream, False
        self.is_live = stream.isatty()

    def show(self, text: str) -> None:
        """Replaces what was shown before, on a terminal."""
        if not self.is_live:
            return self.say(text)
        self._print(f"\r\x1b[2K{text}", end="")
        self._is_open = True

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        self.close()
        self._print(text)

    def close(self) -> None:
        """Keeps what is shown and begins a new line."""
        if self._is_open:
            self._print("")
            self._is_open = False

    def _print(self, text: str, end: str = "\n") -> None:
        with suppress(OSError):  # the terminal has gone: the run is worth more than its report
            print(text, end=end, file=self._stream, flush=True)


class Pace:
    """The mean pace of some work, and the time that the rest of it will take.

    Only work that is added after `start` counts, as a first step also compiles. The unit of
    amounts is the caller's; clock returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: float | None = None
        self._amount = 0.0

    def start(self) -> None:
        """Starts the clock, unless it is running."""
        if self._start is None:
            self._start = self._clock()

    def add(self, amount: float) -> None:
        """Counts work that was done, if the clock is running."""
        if self._start is not None:
            self._amount += amount

    def per_second(self) -> float:
        """Returns the mean pace; 0 before any work was counted."""
        if self._start is None or not self._amount:
            return 0.0
        return self._amount / max(self._clock() - self._start, 1e-9)

    def time_left(self, remaining: float) -> str:
        """Returns the time for a remaining amount, as "1 h 02 min left"; "" while unknown."""
        pace = self.per_second()
        return f"{format_seconds(remaining / pace)} left" if pace else ""


def format_seconds(seconds: float) -> str:
    """Formats a duration in at most two units: 3725 -> "1 h 02 min"."""
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


_is_quiet = False  # of the process: which host it is holds for every caller of `say`


def say(text: str) -> None:
    """Prints a message to standard error; standard output belongs to translations."""
    if not _is_quiet and sys.stderr:  # None if closed, when print would take standard output
        with suppress(OSError):  # the terminal has gone: the run is worth more
            print(text, file=sys.stderr, flush=True)


def be_quiet() -> None:
    """Silences `say` and `tell` in this process, as another host speaks; errors still show."""
    global _is_quiet
    _is_quiet = True


def tell(lines: Iterable[str]) -> None:
    """Prints results to standard output, on the first host alone."""
    if not _is_quiet:
        print(*lines, sep="\n", flush=True)


def this_command() -> str:
    """Returns the command line that started this program."""
    return " ".join(["python", *map(shlex.quote, sys.argv)])
