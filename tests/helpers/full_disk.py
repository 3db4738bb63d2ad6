"""A disk that fills while a test writes."""

import resource
import signal
from contextlib import contextmanager


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
