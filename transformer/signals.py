"""Why a run ends before its last step: a signal, no better score, numbers not finite."""

import signal
from contextlib import contextmanager

DONE, FAILED, WRONG_INPUT, DIVERGED, RESUMABLE, INTERRUPTED = 0, 1, 2, 3, 75, 130  # exit codes
MAX_SKIPPED = 3  # updates in a row that are left out before the run is given up


class Interruption(BaseException):
    """Raised by a signal inside `Stopping.at_once`; no error, so no handler of errors takes it."""


class Stopping:
    """Notes signals and scores. patience: evaluations without a better score that are too many.

    is_alone: whether no other host waits for this one in the middle of what it does.
    """

    def __init__(self, patience, is_alone=True):
        self.patience, self.is_alone = patience, is_alone
        self.signal = None
        self.best, self.num_worse = None, 0  # the best score, and evaluations since
        self._at_once = False

    def catch_signals(self):
        """From here on SIGTERM, SIGINT and SIGHUP are noted; a second SIGINT ends at once."""
        signal.signal(signal.SIGTERM, self._note)
        signal.signal(signal.SIGINT, self._note)
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as nohup has it
            signal.signal(signal.SIGHUP, self._note)

    def _note(self, number, frame):
        self.signal = number
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._at_once:
            raise Interruption

    @contextmanager
    def at_once(self):
        """Inside, a signal to a lone host does not wait for the end but raises `Interruption`."""
        self._at_once = self.is_alone
        try:
            if self.signal and self.is_alone:
                raise Interruption
            yield
        finally:
            self._at_once = False

    def record_score(self, score):
        """Takes the score of an evaluation into account."""
        if self.best is None or score > self.best:
            self.best, self.num_worse = score, 0
        else:
            self.num_worse += 1

    @property
    def has_converged(self):
        """Whether `patience` evaluations in a row were no better than the best before."""
        return 0 < self.patience <= self.num_worse

    @property
    def exit_code(self):
        """After a signal: 130 for SIGINT, else 75."""
        return INTERRUPTED if self.signal == signal.SIGINT else RESUMABLE
