"""What a person reads while a command runs: lines on standard error, results on standard output."""

import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TypeVar

from transformer.terminal import LiveLine, escaped, is_terminal, stamp_lines

T = TypeVar("T")
TICK = 0.5  # seconds between two looks at the phase that lasts
FIRST_REMARK = 4.0  # seconds after which a phase is worth a line in a file
REMARK_EVERY = 15.0  # seconds between two such lines, at least

_line = LiveLine()  # at the end of standard error
_is_quiet = False  # of the process: which host it is holds for every caller of `say`


def live_line() -> LiveLine:
    """Returns the line at the end of standard error, above which `say` prints."""
    return _line


def say(text: str, *, on_every_host: bool = False) -> None:
    """Prints a message to standard error; standard output belongs to translations."""
    if on_every_host or not _is_quiet:
        _line.say(text)


def be_quiet() -> None:
    """Silences `say`, `tell` and `phase` in this process, as another host speaks."""
    global _is_quiet
    _is_quiet = True


def tell(lines: Iterable[str]) -> None:
    """Prints results to standard output, on the first host alone."""
    if not _is_quiet:
        _line.close()
        print(*map(escaped, lines) if is_terminal(sys.stdout) else lines, sep="\n", flush=True)


def ask_for_lines(what: str) -> None:
    """Says what is read from standard input, if a person types it; what: as "a sentence"."""
    if sys.stdin and sys.stdin.isatty():
        say(f"Type {what} per line; Ctrl-D ends.")


@contextmanager
def silence() -> Generator[None]:
    """Prints nothing in the block that `say` and `phase` would print; a log still has it."""
    before, _line.is_silent = _line.is_silent, True
    try:
        yield
    finally:
        _line.is_silent = before


@contextmanager
def keeping_log(write: Callable[[str], object], command: str) -> Generator[None]:
    """Gives `write` all that is said in the block, with date and time, and how the block failed.

    command: what began it, for the first line.
    """
    before, _line.log = _line.log, write
    try:
        with suppress(OSError):
            write(stamp_lines(escaped(command)))
        yield
    except BaseException as error:
        reason = traceback.format_exc() if isinstance(error, Exception) else type(error).__name__
        with suppress(OSError):
            write(stamp_lines(escaped(reason.rstrip())))
        raise
    finally:
        _line.log = before


# ---- the pace of work


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


# ---- what takes long


class Phase:
    """What is being done, since when and how far it is. total: of what `advance` counts, or 0."""

    def __init__(self, name: str, total: int, clock: Callable[[], float]) -> None:
        self.name, self.total, self.num_done = name, total, 0
        self.unit = ""  # of what is counted, as "pairs", if the pace is to be shown
        self._clock, self._start, self._pace = clock, clock(), Pace(clock)

    def advance(self, amount: int = 1) -> None:
        """Counts what was done; the clock of the pace starts now, as what came before compiled."""
        self.num_done += amount
        self._pace.add(amount)
        self._pace.start()

    def __str__(self) -> str:
        """As "translating 320/1,000 (12 s, 25 s left)"."""
        count = f" {min(self.num_done, self.total):,}/{self.total:,}" if self.total else ""
        seconds, pace = self._clock() - self._start, self._pace.per_second()
        times = [format_seconds(seconds)] if seconds >= 1 else []
        times += [f"{pace:,.0f} {self.unit}/s"] if pace and self.unit else []
        times += filter(None, [self._pace.time_left(max(0, self.total - self.num_done))])
        return f"{self.name}{count}" + (f" ({', '.join(times)})" if times else "")


class PhaseDisplay:
    """Shows the phases that last now, outermost first, from a thread of its own.

    On a terminal, they are a live note; in a file, a line when one has lasted `FIRST_REMARK`
    seconds, and then one every `REMARK_EVERY`.
    """

    def __init__(self, line: LiveLine, clock: Callable[[], float] = time.monotonic) -> None:
        self.is_on = False
        self._line, self.clock = line, clock
        self._phases: list[Phase] = []
        self._last_remark, self._next_remark = float("-inf"), float("inf")

    @contextmanager
    def lasting(self, phase: Phase, is_logged: bool = True) -> Generator[None]:
        """Shows a phase for as long as the block lasts; phases may be nested."""
        self._phases.append(phase)
        if is_logged:
            due = max(self.clock() + FIRST_REMARK, self._last_remark + REMARK_EVERY)
            self._next_remark = min(self._next_remark, due)
        try:
            with self._ticking() if len(self._phases) == 1 else nullcontext():
                self.show()
                yield
        finally:
            self._phases.remove(phase)
            if self._phases:
                self.show()
            else:
                self._line.note("")
                self._next_remark = float("inf")

    @contextmanager
    def _ticking(self) -> Generator[None]:
        ended = threading.Event()

        def tick() -> None:
            while not ended.wait(TICK):
                self.show()

        thread = threading.Thread(target=tick, name="phases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def show(self) -> None:
        """Shows the state of now."""
        *outer, phase = list(self._phases)
        text = ": ".join([*(phase.name for phase in outer), str(phase)])
        self._line.note(text)
        now = self.clock()
        if now >= self._next_remark:
            self._last_remark, self._next_remark = now, now + REMARK_EVERY
            self._line.remark(text)


_display = PhaseDisplay(_line)


@contextmanager
def showing_phases() -> Generator[None]:
    """Shows the phases that begin in the block; outside such a block, `phase` shows nothing."""
    before, _display.is_on = _display.is_on, True
    try:
        yield
    finally:
        _display.is_on = before


@contextmanager
def phase(name: str, total: int = 0, *, is_logged: bool = True) -> Generator[Phase]:
    """Shows on standard error what is done in the block, for how long and how far it is.

    name: as "translating". total: of what `advance` of the phase counts; 0 if that is not known.
    is_logged: whether a file gets a line too; not before it is known which host this is.
    """
    this = Phase(name, total, _display.clock)
    is_main = threading.current_thread() is threading.main_thread()
    is_shown = _display.is_on and not _is_quiet and is_main
    with _display.lasting(this, is_logged) if is_shown else nullcontext():
        yield this


def counted(items: Iterable[T], name: str, total: int, weight: int = 1) -> Iterator[T]:
    """Yields `items` in a phase that counts them; each is `weight` of the total."""
    with phase(name, total) as this:
        for item in items:
            yield item
            this.advance(weight)
