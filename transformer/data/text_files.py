"""A text file or stream -> its lines, one at a time; what is wrong with them is mended and counted.

A line ends at "\\n" and nowhere else. Files may end in .gz or .xz and lie on gs://.
"""

import gzip
import io
import lzma
import os
import re
import stat
import sys
import zlib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from transformer import storage

OPENERS = {"": None, ".gz": gzip.open, ".xz": lzma.open}
LONGEST_LINE = 2**20  # bytes that are kept of a line
NOT_UTF8 = "lines that are not UTF-8, bytes replaced"
TOO_LONG = "lines longer than 1 MiB, cut there"
BROKEN = OSError, EOFError, lzma.LZMAError, zlib.error


class Lines:
    """The lines of a binary file, to be gone through once; at most one is in memory.

    Bytes that are not UTF-8 become U+FFFD; a BOM goes, the CR of a CRLF, and what a line has beyond
    `LONGEST_LINE`. name: what to call it; raw: the file that `file` unpacks, if it is compressed;
    size: the bytes of that, 0 if nobody knows.
    """

    def __init__(self, file, name, raw=None, size=0):
        self.name = name
        self._file, self._raw, self._size = file, raw or file, size
        self._faults = {NOT_UTF8: Counter(), TOO_LONG: Counter()}  # how many, and the first numbers

    def __iter__(self):
        for number, line in enumerate(self._raw_lines(), 1):
            line = line.removesuffix(b"\n")
            if len(line) > LONGEST_LINE:
                self._note(TOO_LONG, number)
                line = re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z", b"", line[:LONGEST_LINE])
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            try:
                text = line.decode()
            except UnicodeDecodeError:
                text = line.decode(errors="replace")
                self._note(NOT_UTF8, number)
            yield text.removesuffix("\r")

    def _raw_lines(self):
        """The lines as bytes; of one that is too long a byte more than is kept, and no more."""
        try:
            while line := self._file.readline(LONGEST_LINE + 1):
                rest = line
                while not rest.endswith(b"\n") and (rest := self._file.readline(2**16)):
                    pass
                yield line
        except BROKEN as error:
            raise ValueError(_unreadable(self.name, error)) from None
        finally:
            self._file.close()
            self._raw.close()

    def _note(self, fault, number):
        numbers = self._faults[fault]
        numbers["all"] += 1
        if len(numbers) <= 5:
            numbers[number] = 1

    @property
    def fraction_read(self):
        """How much of the file has been read, from 0 to 1; None if nobody knows."""
        if not self._size:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)

    def repairs(self):
        """{what is wrong with lines so far, with the first of their numbers: how many of them}."""
        found = {}
        for fault, numbers in self._faults.items():
            places = [str(number) for number in numbers if number != "all"]
            more = ", …" if numbers["all"] > len(places) else ""
            if places:
                found[f"{fault} ({self.name} line {', '.join(places)}{more})"] = numbers["all"]
        return found


def open_lines(path):
    """The `Lines` of a file, or of standard input for "-"; ValueError if it cannot be opened."""
    path = os.fspath(path)
    if path == "-":
        return _standard_input()
    opener = OPENERS.get(Path(path).suffix)
    try:
        place = storage.locate(path)
        file = place.open("rb")
        if storage.is_remote(path):
            file, size = io.BufferedReader(file, 2**20), place.stat().length
        else:
            size = os.fstat(file.fileno()).st_size
        return Lines(opener(file) if opener else file, path, file, size)
    except BROKEN as error:
        raise ValueError(_unreadable(path, error)) from None


def _standard_input():
    if sys.stdin is None:  # closed
        return Lines(io.BytesIO(), "standard input")
    file = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    return Lines(file, "standard input", size=size)


def _unreadable(name, error):
    reason = getattr(error, "strerror", None) or error
    return f"{name} cannot be read: {reason}."


class Text(NamedTuple):
    """All lines of a text, and the number of lines that were repaired, by what was wrong."""

    lines: list[str]
    repairs: Counter[str]


def read_text(path: str | os.PathLike) -> Text:
    """Reads a text file, or standard input for "-"; ValueError if it cannot be read."""
    return _read(open_lines(path))


def decode_text(data: bytes, name: str = "input") -> Text:
    """Reads bytes as `read_text` reads a file; name: what to call them in `repairs`."""
    return _read(Lines(io.BytesIO(data), name))


def _read(lines: Lines) -> Text:
    texts = list(lines)
    return Text(texts, Counter(lines.repairs()))


def is_readable(path):
    """Whether something with that name can be read: a file, or a pipe as of `<(zstdcat FILE)`."""
    place = storage.locate(path)
    return place.exists() and not place.is_dir()


def count_lines(path):
    """How many lines a file has, if that is soon known: None if it is compressed or a stream."""
    path = Path(path).expanduser()
    if path.suffix in (".gz", ".xz") or not path.is_file():
        return None
    count, last = 0, b"\n"
    with open(path, "rb") as file:
        while block := file.read(2**20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def find_file(folder, name):
    """The file of this name in a folder, compressed or not; None if there is none."""
    paths = [folder / f"{name}{ending}" for ending in OPENERS]
    return next((path for path in paths if path.is_file()), None)


def describe_folder(folder):
    """What to say of a folder in which something is missing."""
    if not folder.is_dir():
        return f"there is no such folder (looked from {os.getcwd()}); set --config.data.corpus"
    return f"it holds {', '.join(sorted(p.name for p in folder.iterdir())[:12]) or 'nothing'}"
