"""A line that is rewritten on a terminal, and its plain form in a file or a log."""

import codecs
import io
import os
import re
import shutil
import sys
import threading
import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TextIO

ERASE = "\r\x1b[2K"  # the row of a terminal that the cursor is in
ASCII = {"±": "+-", "–": "-", "—": "-", "…": "...", "·": "*", "×": "x", "²": "^2", "√": "sqrt"}
ASCII |= {"→": "->", "≤": "<=", "≥": ">=", "α": "alpha", "β": "beta", "ε": "epsilon", "Δ": "delta"}
# Commands of a terminal, what reorders or breaks a line, and bytes of file names that are commands.
COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]"
)


def write_any_character(stream: TextIO | None) -> None:
    """Lets a stream write what its encoding lacks as ASCII: "±" as "+-", "語" as "\\u8a9e".

    A byte of a file name that the locale could not decode is written as it is.
    """
    codecs.register_error("in_ascii", _in_ascii)
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="in_ascii")


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """Returns what is written for the first character of an error, and where to go on."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":  # what surrogateescape makes of a byte
        return bytes([ord(character) - 0xDC00]), error.start + 1
    code = character.encode("ascii", "backslashreplace").decode()
    return ASCII.get(character, code), error.start + 1


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


class LiveLine:
    """A line that is rewritten on a terminal, cut to its width; in a file, one below the other.

    Several threads may use it. stream: None for standard error, whatever that is at the time.
    has_stamps: whether lines in a file begin with date and time. log: takes every line that stays
    and every state that was shown, with date and time; it ends each with a newline. is_silent:
    whether nothing is printed, but only kept in the log. has_spoken: whether it said anything yet.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._given_stream, self._lock = stream, threading.RLock()
        self._text = self._note = ""  # what the live row holds
        self.has_stamps = self.is_silent = self.has_spoken = False
        self.log: Callable[[str], object] | None = None

    @property
    def is_live(self) -> bool:
        """Whether the stream is a terminal, on which a line can be rewritten."""
        return is_terminal(self._stream)

    def show(self, text: str, *, is_passing: bool = False) -> None:
        """Replaces what was shown before, on a terminal.

        is_passing: whether the log can do without it, as another will soon follow.
        """
        text = escaped(text)
        with self._lock:
            if not (is_passing and self.is_live):
                self._record(text)
            if self.is_live:
                self._text = text
                self._draw()

    def note(self, text: str) -> None:
        """Shows `text` behind the line on a terminal until the next note; "" removes it."""
        text = escaped(text)
        with self._lock:
            if text != self._note and self.is_live:
                self._note = text
                self._draw()

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        text = escaped(text)
        with self._lock:
            self.close()
            self._record(text)
            if self.is_live:
                self._print(f"{text}\n")
                if self._note:
                    self._draw()

    def remark(self, text: str) -> None:
        """Prints a line that stays into a file and the log, but not on a terminal."""
        with self._lock:
            self._record(escaped(text))

    def close(self) -> None:
        """Keeps what is shown and begins a new line."""
        with self._lock:
            if self._text:
                self._print(f"{ERASE}{self._fit(self._text)}\n" if self._note else "\n")
            elif self._note:
                self._print(ERASE)
            self._text = ""

    @property
    def _stream(self) -> TextIO | None:
        if self.is_silent:
            return None
        return self._given_stream or sys.stderr  # None if standard error is closed

    def _draw(self) -> None:
        self._print(ERASE + self._fit("  ".join(filter(None, (self._text, self._note)))))

    def _fit(self, text: str) -> str:
        text = text.replace("\n", "\\n")
        return cut(text, columns_of(self._stream) - 1)  # in the last column some terminals wrap

    def _record(self, text: str) -> None:
        """Writes lines to the log, and to the stream if it is a file."""
        stamped, self.has_spoken = stamp_lines(text), True
        if not self.is_live:
            self._print(stamped if self.has_stamps else f"{text}\n")
        if self.log:
            with suppress(OSError):  # a full disk: the run may find space again
                self.log(stamped)

    def _print(self, text: str) -> None:
        if self._stream:
            with suppress(OSError, ValueError):  # the terminal has gone: the run is worth more
                print(text, end="", file=self._stream, flush=True)


def stamp_lines(text: str) -> str:
    """Returns each line of a text behind the local date and time, with a newline at the end."""
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    return "".join(f"{stamp} {line}".rstrip() + "\n" for line in text.split("\n"))


def columns_of(stream: TextIO | None) -> int:
    """Returns the width of a terminal; that of COLUMNS, or 80, if it does not tell."""
    if stream is not None:
        with suppress(OSError, ValueError):
            return os.get_terminal_size(stream.fileno()).columns or 80
    return shutil.get_terminal_size().columns


def cut(text: str, width: int) -> str:
    """Returns as much of a line as fits into `width` columns, ending in "…" if that is not all.

    >>> cut("翻訳 of this", 8)
    '翻訳 of…'
    """
    widths = [_columns(character) for character in text]
    if sum(widths) <= width:
        return text
    used = 0
    for index, columns in enumerate(widths):
        used += columns
        if used > width - 1:
            return text[:index].rstrip() + "…"
    return text


def _columns(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
