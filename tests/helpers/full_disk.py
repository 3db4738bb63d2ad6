"""A disk that fills while a test writes."""

import errno
import os


def full_after(monkeypatch, number):
    """Lets every os.fsync behind the first `number` fail as on a full disk."""
    fsync, calls = os.fsync, []

    def fill(file):
        calls.append(file)
        if len(calls) > number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(file)

    monkeypatch.setattr(os, "fsync", fill)
