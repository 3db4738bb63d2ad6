"""How a command ends early: on a signal, or when the score of a run stops improving.

A signal ends a command at once (`end_on_signals`): its files are whole at any time, and the same
command goes on with them. Only training, which would lose the steps since its last checkpoint,
notes a signal and saves first (`Stopping`).
"""

import math
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from transformer.exit_codes import INTERRUPTED, RESUMABLE

CAUGHT = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


class Interruption(BaseException):
    """Ends what a signal came to; it is no `Exception`, so that no handler of errors swallows it.

    number: of the signal. As a text it is what to say of it.
    """

    def __init__(self, number: int = signal.SIGTERM) -> None:
        name = signal.Signals(number).name
        super().__init__(f"stopped by {name}; give the same command again")
        self.exit_code = INTERRUPTED if number == signal.SIGINT else RESUMABLE


def end_on_signals() -> None:
    """Lets SIGTERM, SIGINT and SIGHUP end this process in one sentence; for a command's first line.

    They raise `Interruption`, so that what is half done is removed; while a module is imported,
    which would turn that into an ImportError, they end the process at once.
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


def _end(number: int, frame: FrameType | None) -> None:
    while frame:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _end_process(number)
        frame = frame.f_back
    for again in CAUGHT:  # a second one would break into the clean-up
        signal.signal(again, _end_process)
    raise Interruption(number)


def _end_process(number: int, *_: Any) -> None:
    interruption = Interruption(number)
    with suppress(OSError):
        os.write(2, f"{interruption}\n".encode())
    os._exit(interruption.exit_code)


class Stopping:
    """Notes signals and the scores of evaluations.

    patience: evaluations in a row without a new best score after which the run has converged; 0
    for no limit.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.signal: int | None = None  # the last one that was noted
        self.best = -math.inf
        self.num_worse = 0  # evaluations since the best
        self.has_converged = False

    @contextmanager
    def noting_signals(self) -> Generator[None]:
        """Notes SIGTERM, SIGINT and SIGHUP in the block; a second SIGINT raises KeyboardInterrupt.

        Off the main thread, signals are left alone.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in CAUGHT}
        _catch(self._note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal == number == signal.SIGINT:
            signal.signal(number, signal.SIG_IGN)  # a third one would break into the clean-up
            raise KeyboardInterrupt
        self.signal = number

    def record_score(self, score: float) -> None:
        """Notes the score of an evaluation; higher is better, and one that is no number worst."""
        self.num_worse += 1
        if math.isfinite(score) and score > self.best:
            self.best, self.num_worse = score, 0
        self.has_converged = 0 < self.patience <= self.num_worse

    @property
    def exit_code(self) -> int:
        """The exit code after a signal: INTERRUPTED for SIGINT, else RESUMABLE."""
        return Interruption(self.signal or signal.SIGTERM).exit_code
