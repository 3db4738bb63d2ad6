"""Text files, read line by line, and the splits of a corpus that a folder of them holds.

A line ends at "\\n" and nowhere else; bad lines are repaired and counted. Files may end in .gz or
.xz and lie on gs://.
"""

import gzip
import io
import lzma
import os
import re
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from etils import epath

from transformer.files import storage
from transformer.files.reading import unreadable
from transformer.files.storage import PathLike

OPENERS = {"": None, ".gz": gzip.open, ".xz": lzma.open}
VALIDATION = ("validation", "val", "valid", "dev")  # names of one split
SPLIT = re.compile(r"([^\[\]]+)(?:\[(?:(\d+)%)?:(?:(\d+)%)?\])?")
LONGEST_LINE = 2**20  # bytes that are kept of a line
NOT_UTF8 = "lines that are not UTF-8, bytes replaced"
TOO_LONG = "lines longer than 1 MiB, cut there"
LINE_BREAK = "sentences with line breaks, which became spaces"
SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character: no text can hold it alone
MAX_SHOWN = 5  # numbers of repaired lines that a message names
BinaryFile = IO[bytes] | io.BufferedIOBase
READ_ERRORS = OSError, EOFError, lzma.LZMAError, zlib.error


# ---- lines


class Repairs(dict[str, list[int]]):
    """How many lines were repaired: {"FAULT (FILE": [number, number of the first line, …]}."""

    def count(self, file: str, fault: str, line: int) -> None:
        """Counts the line of this number."""
        self.add({f"{fault} ({file}": [1, line]})

    def add(self, later: Mapping[str, Sequence[int]]) -> None:
        """Adds the repairs of later lines."""
        for key, (more, *lines) in later.items():
            number, *first = self.get(key, [0])
            self[key] = [number + more, *[*first, *lines][:MAX_SHOWN]]

    def named(self) -> Counter[str]:
        """Returns the number of repaired lines by fault, file and numbers of the first."""
        return Counter(
            {
                f"{key} line {', '.join(map(str, lines))}{', …' * (number > len(lines))})": number
                for key, (number, *lines) in self.items()
            }
        )


class Lines:
    """The lines of a binary file, to be iterated over once; at most one is in memory.

    Invalid UTF-8 is replaced by U+FFFD. A BOM, the CR of CRLF, and everything beyond `LONGEST_LINE`
    bytes of a line are removed; `repairs` counts what was.
    """

    def __init__(
        self, file: BinaryFile, name: str, raw: BinaryFile | None = None, size: int = 0
    ) -> None:
        """Takes a binary file, which it closes at the end; name: what messages call it.

        raw: the compressed file that `file` unpacks, if it is compressed. size: the bytes of the
        file on disk; 0 if unknown.
        """
        self.name = name
        self._file, self._raw, self._size = file, raw or file, size
        self.repairs = Repairs()

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self.undecoded(), 1):
            yield decode_line(line, self.name, number, self.repairs)

    def undecoded(self) -> Iterator[bytes]:
        """Yields each line as bytes, for `decode_line`; of one too long, one byte more than kept.

        The line feed at its end is there even where the file, or what is kept, lacks it.
        """
        try:
            while line := self._file.readline(LONGEST_LINE + 1):
                if line.endswith(b"\n"):
                    yield line
                    continue
                while (rest := self._file.readline(2**16)) and not rest.endswith(b"\n"):
                    pass
                yield line + b"\n"
        except READ_ERRORS as error:
            raise unreadable(self.name, error) from None
        finally:
            self._file.close()
            self._raw.close()

    @property
    def fraction_read(self) -> float | None:
        """How much of the file has been read, from 0 to 1; None if its size is unknown."""
        if not self._size:
            return None
        return 1.0 if self._raw.closed else min(1.0, self._raw.tell() / self._size)


def decode_line(line: bytes, file: str, number: int, repairs: Repairs) -> str:
    """Returns the text of a line that `Lines.undecoded` yields. number: of the line, from 1."""
    line = line.removesuffix(b"\n")
    if len(line) > LONGEST_LINE:
        repairs.count(file, TOO_LONG, number)
        line = re.sub(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z", b"", line[:LONGEST_LINE])
    if number == 1:
        line = line.removeprefix(b"\xef\xbb\xbf")
    try:
        text = line.decode()
    except UnicodeDecodeError:
        text = line.decode(errors="replace")
        repairs.count(file, NOT_UTF8, number)
    return text.removesuffix("\r")


def open_lines(path: PathLike) -> Lines:
    """Opens a file, or standard input for "-"; raises ValueError if that fails."""
    name = os.fspath(path)
    if name == "-":
        return _standard_input()
    opener = OPENERS.get(Path(name).suffix)
    try:
        location = storage.locate(name)
        file = location.open("rb")
        if storage.is_remote(name):
            file = io.BufferedReader(cast(io.RawIOBase, file), 2**20)
            size = location.stat().length
        else:
            size = os.fstat(file.fileno()).st_size
        return Lines(opener(file) if opener else file, name, file, size)
    except READ_ERRORS as error:
        raise unreadable(name, error) from None


def _standard_input() -> Lines:
    if sys.stdin is None:  # closed
        return Lines(io.BytesIO(), "standard input")
    file = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    return Lines(file, "standard input", size=os.fstat(file.fileno()).st_size)


class Text(NamedTuple):
    """All lines of a text, and the number of repaired lines by what was wrong with them."""

    lines: list[str]
    repairs: Counter[str]


def read_text(path: PathLike) -> Text:
    """Reads a whole file, or standard input for "-"; raises ValueError if that fails."""
    lines = open_lines(path)
    return Text(list(lines), lines.repairs.named())


def is_readable(path: PathLike) -> bool:
    """Returns whether `path` is a file, or a pipe such as `<(zstdcat FILE)`."""
    location = storage.locate(path)
    return location.exists() and not location.is_dir()


def count_lines(path: PathLike) -> int | None:
    """Returns the number of lines of a file; None if it is compressed or a stream."""
    path = Path(path).expanduser()
    if path.suffix in (".gz", ".xz") or not path.is_file():
        return None
    count, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while block := file.read(2**20):
                count, last = count + block.count(b"\n"), block[-1:]
    except OSError as error:
        raise unreadable(str(path), error) from None
    return count + (last != b"\n")


# ---- splits


class Split(NamedTuple):
    """A split, and the part of it from one share of its items to another."""

    name: str
    start: float
    stop: float


def parse_split(text: str) -> Split:
    """Parses the name of a split, which may be a part of one, as TFDS writes it.

    Raises ValueError if it is none, or an empty part.

    >>> parse_split("train[:90%]")
    Split(name='train', start=0.0, stop=0.9)
    """
    match = SPLIT.fullmatch(text)
    start, stop = (int(match[i] or whole) for i, whole in ((2, 0), (3, 100))) if match else (1, 0)
    if match is None or not start < stop <= 100:
        raise ValueError(
            f"A split is NAME, or a part of it as NAME[:90%] or NAME[90%:], not '{text}'."
        )
    return Split(match[1], start / 100, stop / 100)


def part_of(items: Any, start: float, stop: float) -> Any:
    """Returns the items of a list, text or array from one share of their number to another.

    >>> part_of("abcdefghij", 0.1, 0.9)
    'bcdefghi'
    """
    first, end = (round(100 * share) * len(items) // 100 for share in (start, stop))
    return items[first:end]


def folder_name(split: str) -> str:
    """Returns a name that a folder can have.

    >>> folder_name("train[:90%]"), folder_name("../a[90%:]")
    ('train_0_90_', '.._a_90_')
    """
    return re.sub(r"[^\w.-]+", "_", split.replace("[:", "[0%:"))


def name_in_folder(folder: epath.Path, split: str) -> str:
    """Returns the name that the files of a split have in a folder: `split`, or a usual synonym.

    The name that was asked for counts if there is any file of it, or none of any.
    """
    if split in VALIDATION and folder.is_dir():
        stems = {re.split(r"\.|-\d", path.name)[0] for path in folder.iterdir()}
        return next((name for name in (split, *VALIDATION) if name in stems), split)
    return split


def find_split(folder: epath.Path, split: str, ending: str) -> epath.Path:
    """Returns the file of a split, as train.tsv or train.tsv.gz; raises ValueError without one."""
    name = f"{name_in_folder(folder, split)}.{ending}"
    for path in (folder / f"{name}{packed}" for packed in OPENERS):
        if path.is_file():
            return path
    raise ValueError(
        f"The corpus folder {folder} must hold {split}.{ending} (also .gz, .xz); "
        f"{describe_folder(folder)}."
    )


def describe_folder(folder: epath.Path) -> str:
    """Returns the end of a message on a missing file: what the folder holds instead."""
    if not folder.is_dir():
        where = "--config.data.corpus, or for eval.py with --corpus"
        return f"there is no such folder (looked from {os.getcwd()}); name it with {where}"
    return f"it holds {', '.join(sorted(p.name for p in folder.iterdir())[:12]) or 'nothing'}"
