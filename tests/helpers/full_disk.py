"""A disk that fills while a test writes."""

import errno
import os
import resource
import signal
from contextlib import contextmanager


def full_after(monkeypatch, number):
    """Lets every os.fsync behind the first `number` fail as on a full disk."""
    fsync, calls = os.fsync, []

    def fill(file):
        calls.append(file)
        if len(calls) > number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr(os, "fsync", fill)


@contextmanager
def no_file_beyond(size):
    """Lets no file of this process grow beyond `size` bytes: writes end half-way and then fail."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
