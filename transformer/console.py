"""What is said to a person: lines on standard error, results on standard output."""

import contextlib
import shlex
import sys
from contextlib import suppress

import jax


class LiveLine:
    """A line that is written anew on a terminal, and lines one below the other elsewhere."""

    def __init__(self, stream):
        self._stream, self._is_open = stream, False
        self.is_live = stream.isatty()

    def show(self, text):
        """In place of what was shown before, if that can be."""
        if not self.is_live:
            return self.say(text)
        self._print(f"\r\x1b[2K{text}", end="")
        self._is_open = True

    def say(self, text):
        """A line that stays."""
        self.close()
        self._print(text)

    def close(self):
        """Leaves what is shown as it is."""
        if self._is_open:
            self._print("")
            self._is_open = False

    def _print(self, text, end="\n"):
        with suppress(OSError):  # the terminal has gone: the run is worth more than its report
            print(text, end=end, file=self._stream, flush=True)


def format_seconds(seconds):
    """3725 -> "1 h 02 min"."""
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"


_is_quiet = False


def say(text):
    """Tells the user something; standard output belongs to translations."""
    if not _is_quiet and sys.stderr:  # None if closed, when print would take standard output
        with contextlib.suppress(OSError):  # the terminal has gone: the run is worth more
            print(text, file=sys.stderr, flush=True)


def be_quiet():
    """From here on `say` is silent: another host speaks. Errors are still told."""
    global _is_quiet
    _is_quiet = True


def tell(lines):
    """Results go to standard output, from the first host alone."""
    if jax.process_index() == 0:
        print(*lines, sep="\n", flush=True)


def this_command():
    """The command line that started this program."""
    return " ".join(["python", *map(shlex.quote, sys.argv)])
