"""Decides when a command ends early: on a signal, or when the score of a run stops improving.

The exit codes below are returned to the scripts; only those end the process.
"""

import math
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType

DONE = 0
FAILED = 1  # the run came to its end, but its last checkpoint could not be written
WRONG_INPUT = 2  # a flag, a setting, a file or a resource that the user can mend
DIVERGED = 3  # updates that were not finite; the same command would diverge again
RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: preempted, and the same command resumes
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
MAX_SKIPPED = 3  # skipped updates in a row after which a run is given up as diverged


CAUGHT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
GRACE = 5.0  # seconds after which a command that does not end of an `Interruption` is ended
_shared: "Stopping | None" = None  # that of the `at_once` block which several hosts are in


class ResumableError(RuntimeError):
    """Ends a command that the same command resumes; its text is the sentence to print."""


class Interruption(BaseException):
    """Raised by a signal inside `Stopping.at_once`, and by `end_on_signals`.

    It is no `Exception`, so that no handler of errors swallows it. number: of the signal.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        self.number = number


def end_on_signals() -> None:
    """Lets SIGTERM, SIGINT and SIGHUP end this process in one sentence; for a command's first line.

    What has begun and can be kept is kept by `Stopping`, which takes their place. Until then, and
    where nothing is to be kept, they raise `Interruption`; while a module is imported, which would
    turn that into an ImportError, they end the process at once. SIGHUP stays ignored where it is.
    """
    _catch(_end)


def _catch(handler: Callable[[int, FrameType | None], None]) -> None:
    """Handles every signal of `CAUGHT`, but SIGHUP where it is ignored, as under nohup."""
    for number in CAUGHT:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, handler)


def ignore_signals() -> None:
    """Leaves signals to others: in a worker process, and where a command has done its work."""
    for number in CAUGHT:
        signal.signal(number, signal.SIG_IGN)


def exit_code_of(number: int | None) -> int:
    """Returns the exit code after a signal: INTERRUPTED for SIGINT, else RESUMABLE."""
    return INTERRUPTED if number == signal.SIGINT else RESUMABLE


def sentence_of(number: int) -> str:
    """Returns what is said after a signal that found nothing to keep."""
    name = signal.Signals(number).name
    return f"stopped by {name}; give the same command to begin again"


def _end(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        _end_process(number)
    for again in CAUGHT:  # a second one would break into the clean-up
        signal.signal(again, _end_process)
    timer = threading.Timer(GRACE, _end_process, [number])
    timer.daemon = True
    timer.start()  # as what is raised inside a destructor is lost
    raise Interruption(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def _end_process(number: int, frame: FrameType | None = None) -> None:
    with suppress(OSError):
        os.write(2, f"{sentence_of(number)}\n".encode())
    os._exit(exit_code_of(number))


class Stopping:
    """Notes signals and the scores of evaluations.

    patience: evaluations in a row without a new best score after which the run has converged; 0
    for no limit. is_alone: whether there is no other host, which would wait for this one if it
    left a computation that all of them share.
    """

    def __init__(self, patience: int, is_alone: bool = True) -> None:
        self.patience, self.is_alone = patience, is_alone
        self.signal: int | None = None  # the last one that was noted
        self.best: float | None = None
        self.num_worse = 0  # evaluations since the best
        self.has_left = False  # whether a block of `at_once` was cut short
        self._at_once = False

    def catch_signals(self) -> None:
        """Notes SIGTERM, SIGINT and SIGHUP from now on; a second SIGINT raises KeyboardInterrupt.

        SIGHUP stays ignored where it is, as under nohup.
        """
        _catch(self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, self._give_up)
        if self._at_once:
            raise Interruption(number)

    def _give_up(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a third one would break into the clean-up
        raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Generator[None]:
        """Lets a signal raise `Interruption` inside the block.

        A signal that was noted before raises it, too, before the block begins. Of several hosts,
        only what looks at `shared_stopping` raises it, for all of them together.
        """
        global _shared
        self._at_once, _shared = self.is_alone, None if self.is_alone else self
        try:
            if self.signal and self.is_alone:
                raise Interruption(self.signal)
            yield
        except Interruption:
            self.has_left = True
            raise
        finally:
            self._at_once, _shared = False, None

    @contextmanager
    def own_part(self) -> Generator[None]:
        """Lets a signal raise `Interruption` where this one of several hosts waits for no other.

        The caller must tell the other hosts, which may wait for what comes after the block.
        """
        self._at_once = True
        try:
            if self.signal:
                raise Interruption(self.signal)
            yield
        finally:
            self._at_once = False

    def record_score(self, score: float) -> None:
        """Notes the score of an evaluation; higher is better, and one that is no number worst."""
        if math.isfinite(score) and (self.best is None or score > self.best):
            self.best, self.num_worse = score, 0
        else:
            self.num_worse += 1

    @property
    def has_converged(self) -> bool:
        """Whether `patience` evaluations in a row were no better than the best before."""
        return 0 < self.patience <= self.num_worse

    @property
    def exit_code(self) -> int:
        """The exit code after a signal: INTERRUPTED for SIGINT, else RESUMABLE."""
        return exit_code_of(self.signal)


def shared_stopping() -> Stopping | None:
    """Returns the one whose block of `at_once` this host and others are in; None outside."""
    return _shared
