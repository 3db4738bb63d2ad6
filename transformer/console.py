"""What a person reads while a command runs: lines on standard error, results on standard output."""

import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import IO, Any, TextIO, TypeVar

T = TypeVar("T")
SHOW_EVERY = 1.0, 10.0  # seconds between two states that are shown, on a terminal and in a file
TICK = 0.5  # seconds after which the row of a terminal is drawn anew
ERASE = "\r\x1b[2K"  # the row of a terminal that the cursor is in
UNWRAPPED = "\x1b[?7l{}\x1b[?7h"  # the terminal cuts off what is too long for its row
# Commands of a terminal, what reorders or breaks a line, and bytes of file names that are commands.
COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]"
)


def escaped(text: str) -> str:
    r"""Returns a text in which nothing commands a terminal but the ends of lines and tabs.

    Sentences, names and values of settings may come from anybody.

    >>> escaped("red \x1b[31m text")
    'red \\x1b[31m text'
    """
    return COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a stream is there and open, and a terminal."""
    return stream is not None and not stream.closed and stream.isatty()


# ---- the pace of work


class Pace:
    """The mean pace of some work, and the time that the rest of it will take.

    It begins when the first work is done, which does not count, as a first step also compiles. The
    unit of amounts is the caller's; clock returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: float | None = None
        self._amount = 0.0

    def add(self, amount: float) -> None:
        """Counts work that was done; the first time it starts the clock."""
        if self._start is None:
            self._start = self._clock()
        else:
            self._amount += amount

    def per_second(self) -> float:
        """Returns the mean pace; 0 before any work was counted."""
        if self._start is None or not self._amount:
            return 0.0
        return self._amount / max(self._clock() - self._start, 1e-9)

    def time_left(self, remaining: float) -> str:
        """Returns the time for a remaining amount, as "1 h 02 min left"; "" if unknown or none."""
        pace = self.per_second()
        return f"{format_seconds(remaining / pace)} left" if pace and remaining else ""


def quantity(number: float, noun: str) -> str:
    """Returns a number with its noun: "1 pair", "1,000 batches"."""
    plural = noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")
    return f"{number:,.15g} {noun if number == 1 else plural}"


def format_seconds(seconds: float) -> str:
    """Formats a duration in at most two units: 3725 -> "1 h 02 min"."""
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


# ---- lines, and the row below them


class Phase:
    """What is being done, since when and how far it is. total: of what `advance` counts, or 0."""

    def __init__(self, name: str, total: int, clock: Callable[[], float]) -> None:
        self.name, self.total, self.num_done = name, total, 0
        self.unit = ""  # of what is counted, as "pairs", if the pace is to be shown
        self._clock, self.start, self._pace = clock, clock(), Pace(clock)

    def advance(self, amount: int = 1) -> None:
        """Counts what was done."""
        self.num_done += amount
        self._pace.add(amount)

    def __str__(self) -> str:
        """As "translating 320/1,000 (12 s, 25 s left)"."""
        count = f" {min(self.num_done, self.total):,}/{self.total:,}" if self.total else ""
        seconds, pace = self._clock() - self.start, self._pace.per_second()
        times = [format_seconds(seconds)] if seconds >= 1 else []
        times += [f"{pace:,.0f} {self.unit}/s"] if pace and self.unit else []
        times += filter(None, [self._pace.time_left(max(0, self.total - self.num_done))])
        return f"{self.name}{count}" + (f" ({', '.join(times)})" if times else "")


class LiveLine:
    """Lines that stay, and below them on a terminal a row that is rewritten; for several threads.

    The row has the phases that last, outermost first, or else what was shown last. A file gets a
    line of the phases that last whenever nothing was said for some seconds (`SHOW_EVERY`).

    stream: None for standard error, whatever that is at the time.
    """

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._given_stream, self.clock, self._lock = stream, clock, threading.RLock()
        self._phases: list[Phase] = []
        self._text = self._row = ""  # what was shown last; what the terminal's row holds
        self._last = clock()  # when something was shown or said
        self.has_stamps = False  # lines in a file begin with date and time
        self.is_silent = False  # nothing is printed, but only kept in the log
        self.shows_phases = False  # `phase` shows what is done
        self.log: Callable[[str], object] | None = None  # takes what a file would get, with dates

    @property
    def is_due(self) -> bool:
        """Whether so much time has passed since the last state that a person wants another."""
        return self.clock() - self._last >= SHOW_EVERY[0 if self._is_live else 1]

    def show(self, text: str, *, is_passing: bool = False) -> None:
        """Replaces what was shown before, on a terminal; a file gets a line.

        is_passing: whether the log can do without it, as another will soon follow.
        """
        with self._lock:
            self._last, self._text = self.clock(), escaped(text)
            if not (is_passing and self._is_live):
                self._record(self._text)
            self._draw()

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        text = escaped(text)
        with self._lock:
            self.close()
            self._record(text)
            if self._is_live:
                self._print(f"{text}\n")
                self._draw()

    def note(self, text: str) -> None:
        """Writes lines to the log alone."""
        if self.log:
            with suppress(OSError):  # a full disk: the run may find space again
                self.log(stamp_lines(text))

    @contextmanager
    def phase(self, name: str, total: int = 0) -> Generator[Phase]:
        """Shows a phase in the block; phases may be nested."""
        this = Phase(name, total, self.clock)
        with self._lock:
            self._phases.append(this)
            self.tick()
        try:
            yield this
        finally:
            with self._lock:
                self._phases.remove(this)
                self._draw()

    def tick(self) -> None:
        """Shows the phases as they are now."""
        with self._lock:
            since = max([self._last, *(phase.start for phase in self._phases[:1])])
            if self._phases and self.clock() - since >= SHOW_EVERY[1]:
                self._record(self._state())
            self._draw()

    def close(self) -> None:
        """Keeps what is shown and begins a new line."""
        with self._lock:
            if self._is_live and (self._row or self._text):
                self._print(ERASE + (self._text and f"{self._text}\n"))
            self._text = self._row = ""

    @property
    def _stream(self) -> TextIO | None:
        if self.is_silent:
            return None
        return self._given_stream or sys.stderr  # None if standard error is closed

    @property
    def _is_live(self) -> bool:
        """Whether the stream is a terminal, on which a line can be rewritten."""
        return is_terminal(self._stream)

    def _state(self) -> str:
        names = [str(phase) if phase.total else phase.name for phase in self._phases[:-1]]
        last = str(self._phases[-1]) if self._phases else self._text
        return escaped(": ".join([*names, last]))

    def _draw(self) -> None:
        row = self._state().replace("\n", "\\n")
        if self._is_live and row != self._row:
            self._print(ERASE + (row and UNWRAPPED.format(row)))
            self._row = row

    def _record(self, text: str) -> None:
        """Writes lines to the log, and to the stream if it is a file."""
        self._last = self.clock()
        if not self._is_live:
            self._print(stamp_lines(text) if self.has_stamps else f"{text}\n")
        self.note(text)

    def _print(self, text: str) -> None:
        if self._stream:
            with suppress(OSError, ValueError):  # the terminal has gone: the run is worth more
                print(text, end="", file=self._stream, flush=True)


def stamp_lines(text: str) -> str:
    """Returns each line of a text behind the local date and time, with a newline at the end."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return "".join(f"{stamp} {line}".rstrip() + "\n" for line in text.split("\n"))


# ---- those of this process

live_line = LiveLine()  # at the end of standard error, above which `say` prints


def say(text: str, *, on_every_host: bool = False) -> None:
    """Prints a message to standard error; standard output belongs to translations."""
    with silence(False) if on_every_host else nullcontext():
        live_line.say(text)


def print_results(lines: Iterable[str], end: str = "\n") -> None:
    """Prints results to standard output, on the first host alone."""
    if not live_line.is_silent:
        live_line.close()
        given = map(escaped, lines) if is_terminal(sys.stdout) else lines
        print(*given, sep="\n", end=end, flush=True)


@contextmanager
def silence(is_silent: bool = True) -> Generator[None]:
    """Prints nothing in the block that `say` and `phase` would print; a log still has it."""
    before, live_line.is_silent = live_line.is_silent, is_silent
    try:
        yield
    finally:
        live_line.is_silent = before


@contextmanager
def keeping_log(write: Callable[[str], object], command: str) -> Generator[None]:
    """Gives `write` all that is said in the block, with date and time, and how the block failed.

    command: what began it, for the first line.
    """
    before, live_line.log = live_line.log, write
    try:
        live_line.note(escaped(command))
        yield
    except BaseException as error:
        reason = traceback.format_exc() if isinstance(error, Exception) else type(error).__name__
        live_line.note(escaped(reason.rstrip()))
        raise
    finally:
        live_line.log = before


@contextmanager
def showing_phases() -> Generator[None]:
    """Shows what `phase` is told in the block, from a thread of its own; else nothing shows it."""
    if live_line.shows_phases:
        yield
        return
    ended = threading.Event()

    def tick() -> None:
        while not ended.wait(TICK):
            live_line.tick()

    thread = threading.Thread(target=tick, name="phases", daemon=True)
    thread.start()
    live_line.shows_phases = True
    try:
        yield
    finally:
        live_line.shows_phases = False
        ended.set()
        thread.join()


def phase(name: str, total: int = 0) -> AbstractContextManager[Phase]:
    """Shows on standard error what is done in the block, for how long and how far it is.

    name: as "translating". total: of what `advance` of the phase counts; 0 if that is not known.
    """
    if live_line.shows_phases and threading.current_thread() is threading.main_thread():
        return live_line.phase(name, total)
    return nullcontext(Phase(name, total, live_line.clock))


def counted(items: Iterable[T], name: str, total: int, weight: int = 1) -> Iterator[T]:
    """Yields `items` in a phase that counts them; each is `weight` of the total."""
    with phase(name, total) as this:
        for item in items:
            yield item
            this.advance(weight)
