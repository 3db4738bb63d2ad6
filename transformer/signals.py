"""Decides when a run ends before its last step: on a signal, or when its score stops improving.

The exit codes below are returned to the scripts; only those end the process.
"""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

DONE = 0
FAILED = 1  # the run came to its end, but its last checkpoint could not be written
WRONG_INPUT = 2  # a flag, a setting, a file or a resource that the user can mend
DIVERGED = 3  # updates that were not finite; the same command would diverge again
RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: preempted, and the same command resumes
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
MAX_SKIPPED = 3  # skipped updates in a row after which a run is given up as diverged


class Interruption(BaseException):
    """Raised by a signal inside `Stopping.at_once`.

    It is no `Exception`, so that no handler of errors swallows it.
    """


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
        self._at_once = False

    def catch_signals(self) -> None:
        """Notes SIGTERM, SIGINT and SIGHUP from now on; a second SIGINT raises KeyboardInterrupt.

        SIGHUP stays ignored where it is, as under nohup.
        """
        signal.signal(signal.SIGTERM, self._note)
        signal.signal(signal.SIGINT, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signal = number
        signal.signal(signal.SIGINT, self._give_up)
        if self._at_once:
            raise Interruption

    def _give_up(self, number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a third one would break into the clean-up
        raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Generator[None]:
        """Lets a signal raise `Interruption` inside the block, if this host is alone.

        A signal that was noted before raises it, too, before the block begins.
        """
        self._at_once = self.is_alone
        try:
            if self.signal and self.is_alone:
                raise Interruption
            yield
        finally:
            self._at_once = False

    def record_score(self, score: float) -> None:
        """Notes the score of an evaluation; higher is better."""
        if self.best is None or score > self.best:
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
        return INTERRUPTED if self.signal == signal.SIGINT else RESUMABLE
