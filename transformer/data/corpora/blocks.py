"""Reads sentence pairs a block at a time, so that a corpus may be of any size.

A block is cut out of the files by their line feeds alone; decoding it is for another process.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NoReturn

import numpy as np
from etils import epath

from transformer.data.corpora.find_files import PairFiles
from transformer.data.files.splits import Split, part_of
from transformer.data.files.text import (
    LINE_BREAK,
    NOT_UTF8,
    SURROGATE,
    Repairs,
    decode_line,
    open_lines,
)
from transformer.files.reading import reason_of

PAIRS_OF_BLOCK = 50_000
LINES_AT_ONCE = 64  # each at most 1 MiB
BYTES_OF_BLOCK = 2**27
BUFFER = 2**20  # bytes of a column that are read at a time: its share of a row group may be large
Pair = tuple[str, str]  # (source, target)
Pairs = list[Pair]
Parse = Callable[[Any], Pair]  # of a line or row; raises ValueError, whose text begins "must"


@dataclass
class Block:
    """Neighbouring pairs of a corpus as they were read; it can be sent to another process.

    files: those with the pairs, one or one for each side, or else the name of the corpus. first:
    the number of the first line, row or pair, from 1. content: the lines of each file, each with a
    line feed behind it, or rows. parse: of a line with both sides, or of a row. share_read: how
    much of the corpus has been read behind this block, from 0 to 1; 0 if unknown. noise: a key of
    `DAMAGE` or "". number: of the block in the training text, from 0; corpus: of its corpus.
    """

    files: tuple[str, ...]
    first: int
    content: tuple[bytes, ...] | list[Any]
    parse: Parse | None
    num_pairs: int
    share_read: float
    noise: str = ""
    number: int = 0
    corpus: int = 0

    def decode(self) -> tuple[Pairs, Repairs]:
        """Returns the pairs, and what was repaired in them.

        Raises ValueError, with its place, for a line or row that is no pair.
        """
        repairs = Repairs()
        columns, name = [self.content], "row"
        if isinstance(self.content, tuple):
            sides, name = zip(self.files, self.content, strict=True), "line"
            columns = [self._lines(*side, repairs) for side in sides]
        if self.parse is None:
            pairs = list(zip(*columns, strict=True))
        else:
            pairs = list(self._parsed(columns[0], self.parse, name, repairs))
        if self.noise:
            pairs = [(DAMAGE[self.noise](source), target) for source, target in pairs]
        return pairs, repairs

    def _lines(self, file: str, column: bytes, repairs: Repairs) -> list[str]:
        numbered = enumerate(column.split(b"\n")[:-1], self.first)
        return [decode_line(line, file, number, repairs) for number, line in numbered]

    def _parsed(
        self, rows: Sequence[Any], parse: Parse, name: str, repairs: Repairs
    ) -> Iterator[Pair]:
        """Yields pairs with a space for each line break, and U+FFFD for half a character."""
        for number, row in enumerate(rows, self.first):
            try:
                source, target = parse(row)
            except ValueError as error:
                raise ValueError(f"{self.files[0]} {name} {number} {error}.") from None
            if "\n" in source or "\n" in target:
                source, target = re.sub(r"\r?\n", " ", source), re.sub(r"\r?\n", " ", target)
                repairs.count(self.files[0], LINE_BREAK, number)
            if SURROGATE.search(source) or SURROGATE.search(target):
                source, target = SURROGATE.sub("\ufffd", source), SURROGATE.sub("\ufffd", target)
                repairs.count(self.files[0], NOT_UTF8, number)
            yield source, target


def blocks_of_pairs(name: str, pairs: Iterable[Pair], number: int) -> Iterator[Block]:
    """Yields pairs that are text already. name: of the corpus. number: of all of them."""
    pairs, num_read = iter(pairs), 0
    while rows := list(islice(pairs, PAIRS_OF_BLOCK)):
        first, num_read = num_read + 1, num_read + len(rows)
        yield Block((name,), first, rows, parse_row, len(rows), num_read / max(number, 1))


def blocks_of_files(
    found: Sequence[PairFiles], part: Split, source: str, target: str
) -> Iterator[Block]:
    """Yields the pairs of files, one after another, or of a part of them all.

    Of two files with 6 and 4 pairs, "train[50%:]" is the pair number 5 of the first, counted from
    0, and all of the second. Raises ValueError if a file cannot be read.
    """
    if (part.start, part.stop) == (0, 1):
        bounds: list[tuple[int, int | None]] = [(0, None)] * len(found)
    else:  # a share of a number that is not known yet
        bounds = list(_bounds_of_part([_num_pairs(pair_files) for pair_files in found], part))
    sizes = [sum(file.stat().length for file in pair_files.files) for pair_files in found]
    for index, (pair_files, (first, end)) in enumerate(zip(found, bounds, strict=True)):
        if first == end:
            continue
        if pair_files.format == "parquet":
            blocks = _parquet_blocks(pair_files.files[0], source, target, first, end)
        else:
            parse = {"": None, "tsv": parse_tsv, "jsonl": ParseJson(source, target)}
            blocks = _text_blocks(pair_files.files, parse[pair_files.format], first, end)
        for block in blocks:
            size_read = sum(sizes[:index]) + block.share_read * sizes[index]
            block.share_read = size_read / max(1, sum(sizes))
            yield block


def _bounds_of_part(counts: Sequence[int], part: Split) -> Iterator[tuple[int, int]]:
    """Yields (first, end) of a part of all pairs in each file. counts: of the pairs in each.

    >>> list(_bounds_of_part([6, 4], Split("train", 0.5, 1.0)))
    [(5, 6), (0, 4)]
    """
    pairs = part_of(range(sum(counts)), part.start, part.stop)
    before = 0
    for count in counts:
        first, end = (min(max(n - before, 0), count) for n in (pairs.start, pairs.stop))
        yield first, end
        before += count


def _num_pairs(pair_files: PairFiles) -> int:
    """Returns the number of pairs; raises ValueError if the two sides differ in length."""
    if pair_files.format == "parquet":
        with _open_parquet(pair_files.files[0]) as opened:
            return opened.metadata.num_rows
    counts = [_count(open_lines(file).undecoded()) for file in pair_files.files]
    if len(set(counts)) > 1:
        _refuse_unequal(pair_files.files, counts)
    return counts[0]


# ---- text


def parse_tsv(line: str) -> Pair:
    """Returns the pair of a line SOURCE<tab>TARGET."""
    row = line.split("\t")
    if len(row) != 2:
        raise ValueError(f"must be SOURCE<tab>TARGET, but has {len(row)} columns")
    return row[0], row[1]


@dataclass(frozen=True)
class ParseJson:
    """Returns the pair of a JSON object: `ParseJson("en", "de")('{"en": "a", "de": "b"}')`.

    The languages are keys of the object, or of the one below its key "translation", as datasets of
    Hugging Face have them.
    """

    source: str
    target: str

    def __call__(self, line: str) -> Pair:
        source = target = None
        with suppress(ValueError, LookupError, AttributeError, TypeError):
            value = json.loads(line)
            value = value.get("translation", value)
            source, target = value[self.source], value[self.target]
        if isinstance(source, str) and isinstance(target, str):
            return source, target
        raise ValueError(
            f'must be a JSON object of at most 1 MiB with a text each for "{self.source}" and '
            f'"{self.target}" (perhaps below "translation"), but begins with {line[:40]!r}'
        )


def _text_blocks(
    files: Sequence[epath.Path], parse: Parse | None, first: int, end: int | None
) -> Iterator[Block]:
    """Yields the lines of a file, or of two side by side, from number `first` up to `end`."""
    opened = [open_lines(file) for file in files]
    lines = [islice(file.undecoded(), first, end) for file in opened]
    while True:
        columns = _next_lines(lines)
        if len(set(map(len, columns))) > 1:
            ahead = [first + len(column) for column in columns]
            _refuse_unequal(files, [n + _count(f) for n, f in zip(ahead, lines, strict=True)])
        if not (number := len(columns[0])):
            return
        content, share = tuple(map(b"".join, columns)), opened[0].fraction_read or 0.0
        yield Block(tuple(map(str, files)), first + 1, content, parse, number, share)
        first += number


def _next_lines(files: Sequence[Iterator[bytes]]) -> list[list[bytes]]:
    """Returns the next lines of each file: those of a block, fewer if they are long.

    They are equally many in each, unless a file ends before another.
    """
    columns: list[list[bytes]] = [[] for _ in files]
    size = 0
    while size < BYTES_OF_BLOCK and (left := min(LINES_AT_ONCE, PAIRS_OF_BLOCK - len(columns[0]))):
        lines = [list(islice(file, left)) for file in files]
        for column, new in zip(columns, lines, strict=True):
            column += new
            size += sum(map(len, new))
        if any(len(new) < left for new in lines):
            break
    return columns


def _count(lines: Iterable[bytes]) -> int:
    return sum(1 for _ in lines)


def _refuse_unequal(files: Sequence[epath.Path], counts: Sequence[int]) -> NoReturn:
    raise ValueError(
        f"The two sides must have equally many lines, but {files[0]} has {counts[0]} and "
        f"{files[1]} has {counts[1]}."
    )


# ---- Parquet


def parse_row(row: tuple[object, object]) -> Pair:
    """Returns a row of two texts as it is."""
    source, target = row
    if isinstance(source, str) and isinstance(target, str):
        return source, target
    raise ValueError(f"must hold texts, not {target if isinstance(source, str) else source!r}")


@contextmanager
def _open_parquet(file: epath.Path) -> Generator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with (
            file.open("rb") as binary,
            parquet.ParquetFile(binary, buffer_size=BUFFER, pre_buffer=False) as opened,
        ):
            yield opened
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{file} cannot be read: {reason_of(error)}.") from None


def _parquet_blocks(
    file: epath.Path, source: str, target: str, first: int, end: int | None
) -> Iterator[Block]:
    """Yields rows. The columns are named by the languages, perhaps fields of `translation`."""
    with _open_parquet(file) as opened:
        num_rows, number = opened.metadata.num_rows, 0
        end = num_rows if end is None else end
        paths = [opened.schema.column(index).path for index in range(len(opened.schema))]
        wanted = [source, target], [f"translation.{source}", f"translation.{target}"]
        names = next((names for names in wanted if {*names} <= {*paths}), None)
        if names is None:
            raise ValueError(
                f"{file} must have columns {source} and {target}, perhaps below translation; it "
                f"has {', '.join(paths)}."
            )
        for batch in opened.iter_batches(PAIRS_OF_BLOCK, columns=names):
            start, stop = max(first - number, 0), min(end - number, len(batch))
            if start < stop:
                rows = _rows(batch.slice(start, stop - start), names)
                share = (number + len(batch)) / num_rows
                yield Block((str(file),), number + start + 1, rows, parse_row, len(rows), share)
            number += len(batch)


def _rows(batch: Any, names: list[str]) -> list[tuple[object, object]]:
    """Returns the values of two columns. names: as "en", or "translation.en" of a field."""
    import pyarrow

    table = pyarrow.Table.from_batches([batch]).flatten()
    source, target = (table.column(name).to_pylist() for name in names)
    return list(zip(source, target, strict=True))


# ---- errors in sources, from which a model learns spelling correction

LETTERS_PER_ERROR = 12  # about one word in three, in English


def misspell(text: str) -> str:
    """Returns the text with an error for about every twelfth letter.

    An error exchanges a letter with the next one of its word (the last one is left out instead),
    leaves it out, doubles it, or replaces it by another one of the text: "the house" becomes
    "hte house", "th house", "thee house" or "uhe house". The errors depend on the text alone: a
    test set is the same for every run, and a prepared corpus for every host.
    """
    rng = np.random.default_rng(np.frombuffer(text.encode(errors="replace"), np.uint8))
    alphabet = [letter for letter in text if letter.isalpha()]
    letters, damaged = list(reversed(text)), []  # the next one last: taking it costs the same
    while letters:
        letter = letters.pop()
        if not letter.isalpha() or rng.integers(LETTERS_PER_ERROR):
            damaged.append(letter)
            continue
        match rng.integers(4):
            case 0 if letters and letters[-1].isalpha():
                damaged += [letters.pop(), letter]
            case 1:
                damaged += [letter, letter]
            case 2:
                damaged.append(alphabet[rng.integers(len(alphabet))])
    return "".join(damaged)


def remove_accents(text: str) -> str:
    """Returns the text without the marks on its letters: "Müßig am Café" -> "Mußig am Cafe"."""
    letters = unicodedata.normalize("NFD", text)
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare)


DAMAGE: dict[str, Callable[[str], str]] = {"misspell": misspell, "remove_accents": remove_accents}
