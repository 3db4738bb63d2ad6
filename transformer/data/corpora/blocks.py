"""Reads sentence pairs a block at a time, so that a corpus may be of any size.

A block is cut out of the files by their line feeds alone; decoding it is for another process.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, NoReturn, Protocol

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

PAIRS_OF_BLOCK = 50_000
LINES_AT_ONCE = 64  # each at most 1 MiB
BYTES_OF_BLOCK = 2**27
BUFFER = 2**20  # bytes of a column that are read at a time: its share of a row group may be large
Pair = tuple[str, str]  # (source, target)
Pairs = list[Pair]
ParseLine = Callable[[str], tuple[str, str]]  # raises ValueError, whose text begins "must"


class Decoded(NamedTuple):
    """The pairs of a block, and what was repaired in the lines of each file, by its name."""

    pairs: Pairs
    repairs: dict[str, Repairs]


class Block(Protocol):
    """Neighbouring pairs of a corpus as they were read; it can be sent to another process."""

    @property
    def name(self) -> str:
        """The file that it is read from, the first of two, or else the name of the corpus."""
        ...

    @property
    def first(self) -> int:
        """The number of its first line, row or pair, from 1."""
        ...

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        ...

    @property
    def share_read(self) -> float:
        """How much of the corpus has been read behind this block, from 0 to 1; 0 if unknown."""
        ...

    def decode(self) -> Decoded:
        """Returns the pairs; raises ValueError, with its place, for a line or row that is none."""
        ...


class NumberedBlock(NamedTuple):
    """A block of the text. number: from 0, over all corpora; corpus: the index of its corpus."""

    number: int
    corpus: int
    block: Block


class TextBlock(NamedTuple):
    """Lines of one file with both sides of a pair in each, or of two files with a side each."""

    files: tuple[str, ...]
    first: int
    columns: tuple[bytes, ...]  # the lines of each file, each with a line feed behind it
    parse: ParseLine | None  # of a line with both sides
    share_read: float

    @property
    def name(self) -> str:
        return self.files[0]

    @property
    def num_pairs(self) -> int:
        return self.columns[0].count(b"\n")

    def decode(self) -> Decoded:
        repairs = {file: Repairs() for file in self.files}
        columns = [
            [
                decode_line(line, number, repairs[file])
                for number, line in enumerate(column.split(b"\n")[:-1], self.first)
            ]
            for file, column in zip(self.files, self.columns, strict=True)
        ]
        if self.parse is None:
            return Decoded(list(zip(*columns, strict=True)), repairs)
        pairs: Pairs = []
        for number, line in enumerate(columns[0], self.first):
            try:
                pairs.append(self.parse(line))
            except ValueError as error:
                raise ValueError(f"{self.name} line {number} {error}.") from None
        return Decoded(_on_one_line(pairs, self.first, repairs[self.name]), repairs)


class RowBlock(NamedTuple):
    """Rows of a table, or pairs of a corpus that has no files."""

    name: str
    first: int
    rows: Sequence[tuple[object, object]]
    share_read: float

    @property
    def num_pairs(self) -> int:
        return len(self.rows)

    def decode(self) -> Decoded:
        pairs: Pairs = []
        for number, (source, target) in enumerate(self.rows, self.first):
            if not isinstance(source, str) or not isinstance(target, str):
                wrong = target if isinstance(source, str) else source
                raise ValueError(f"{self.name} row {number} must hold texts, not {wrong!r}.")
            pairs.append((source, target))
        repairs = Repairs()
        return Decoded(_on_one_line(pairs, self.first, repairs), {self.name: repairs})


def _on_one_line(pairs: Pairs, first: int, repairs: Repairs) -> Pairs:
    """Returns the pairs with a space for each line break, and U+FFFD for each half of a character.

    first: the number of the first pair.
    """
    for index, (source, target) in enumerate(pairs):
        if "\n" in source or "\n" in target:
            source, target = re.sub(r"\r?\n", " ", source), re.sub(r"\r?\n", " ", target)
            pairs[index] = source, target
            repairs.count(LINE_BREAK, first + index)
        if SURROGATE.search(source) or SURROGATE.search(target):
            pairs[index] = SURROGATE.sub("\ufffd", source), SURROGATE.sub("\ufffd", target)
            repairs.count(NOT_UTF8, first + index)
    return pairs


def add_repairs(repairs: dict[str, Repairs], later: dict[str, Repairs]) -> None:
    """Adds the repairs of a later block to those of the blocks before it, file by file."""
    for name, found in later.items():
        repairs.setdefault(name, Repairs()).add(found.counts, found.first)


def blocks_of_pairs(name: str, pairs: Iterable[tuple[str, str]], number: int) -> Iterator[Block]:
    """Yields pairs that are text already. name: of the corpus. number: of all of them."""
    pairs, num_read = iter(pairs), 0
    while block := list(islice(pairs, PAIRS_OF_BLOCK)):
        first, num_read = num_read + 1, num_read + len(block)
        yield RowBlock(name, first, block, num_read / max(number, 1))


def blocks_of_files(
    found: Sequence[PairFiles], part: Split, source: str, target: str
) -> Iterator[Block]:
    """Yields the pairs of files, one after another, or of a part of them all.

    Of two files with 6 and 4 pairs, "train[50%:]" is the pair number 5 of the first, counted from
    0, and all of the second. Raises ValueError if a file cannot be read.
    """
    tables = [open_table(files, source, target) for files in found]
    if (part.start, part.stop) == (0, 1):
        bounds: list[tuple[int, int | None]] = [(0, None)] * len(tables)
    else:  # a share of a number that is not known yet
        bounds = list(_bounds_of_part([table.num_pairs() for table in tables], part))
    sizes = [sum(file.stat().length for file in files.files) for files in found]
    for index, (table, (first, end)) in enumerate(zip(tables, bounds, strict=True)):
        if first == end:
            continue
        for block in table.blocks(first, end):
            size_read = sum(sizes[:index]) + block.share_read * sizes[index]
            yield block._replace(share_read=size_read / max(1, sum(sizes)))


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


# ---- the formats of files


class Table(Protocol):
    """A file, or two files side by side, with some pairs of a corpus."""

    def num_pairs(self) -> int:
        """Returns the number of pairs; raises ValueError if that fails."""
        ...

    def blocks(self, first: int, end: int | None) -> Iterator[TextBlock | RowBlock]:
        """Yields the pairs from number `first` up to `end`, or to the last; raises ValueError."""
        ...


def open_table(found: PairFiles, source: str, target: str) -> Table:
    """Returns what reads these files. source, target: the languages."""
    if found.format == "parquet":
        return ParquetTable(found.files[0], source, target)
    parsers = {"": None, "tsv": parse_tsv, "jsonl": ParseJson(source, target)}
    return TextTable(found.files, parsers[found.format])


def parse_tsv(line: str) -> tuple[str, str]:
    """Returns the pair of a line SOURCE<tab>TARGET; raises ValueError, whose text begins "must"."""
    row = line.split("\t")
    if len(row) != 2:
        raise ValueError(f"must be SOURCE<tab>TARGET, but has {len(row)} columns")
    return row[0], row[1]


@dataclass(frozen=True)
class ParseJson:
    """Returns the pair of a JSON object: `ParseJson("en", "de")('{"en": "a", "de": "b"}')`.

    The languages are keys of the object, or of the one below its key "translation", as datasets of
    Hugging Face have them. Raises ValueError, whose text begins "must".
    """

    source: str
    target: str

    def __call__(self, line: str) -> tuple[str, str]:
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


class TextTable(NamedTuple):
    """Text: a file with both sides of a pair in each line, or two files side by side."""

    files: Sequence[epath.Path]
    parse: ParseLine | None  # of a line with both sides

    def num_pairs(self) -> int:
        """Returns the number of pairs; raises ValueError if the two files differ in length."""
        counts = [_count(open_lines(path).undecoded()) for path in self.files]
        if len(set(counts)) > 1:
            self._refuse_unequal(counts)
        return counts[0]

    def blocks(self, first: int, end: int | None) -> Iterator[TextBlock]:
        """Yields the pairs; raises ValueError if the two files differ in length."""
        opened = [open_lines(path) for path in self.files]
        lines = [islice(file.undecoded(), first, end) for file in opened]
        while True:
            columns = _next_lines(lines)
            if len(set(map(len, columns))) > 1:
                ahead = [first + len(column) for column in columns]
                self._refuse_unequal([n + _count(f) for n, f in zip(ahead, lines, strict=True)])
            if not columns[0]:
                return
            texts, share = tuple(map(b"".join, columns)), opened[0].fraction_read or 0.0
            yield TextBlock(tuple(map(str, self.files)), first + 1, texts, self.parse, share)
            first += len(columns[0])

    def _refuse_unequal(self, counts: Sequence[int]) -> NoReturn:
        raise ValueError(
            f"The two sides must have equally many lines, but {self.files[0]} has {counts[0]} and "
            f"{self.files[1]} has {counts[1]}."
        )


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


class ParquetTable(NamedTuple):
    """A file whose columns are named by the languages, perhaps fields of a column `translation`."""

    file: epath.Path
    source: str
    target: str

    def num_pairs(self) -> int:
        """Returns the number of rows; raises ValueError if the file cannot be read."""
        with self._open() as opened:
            return opened.metadata.num_rows

    def blocks(self, first: int, end: int | None) -> Iterator[RowBlock]:
        """Yields the rows; raises ValueError if there are no such columns."""
        with self._open() as opened:
            num_rows, number = opened.metadata.num_rows, 0
            end = num_rows if end is None else end
            names = self._columns(opened)
            for batch in opened.iter_batches(PAIRS_OF_BLOCK, columns=names):
                start, stop = max(first - number, 0), min(end - number, len(batch))
                if start < stop:
                    rows = _rows(batch.slice(start, stop - start), names)
                    share = (number + len(batch)) / num_rows
                    yield RowBlock(str(self.file), number + start + 1, rows, share)
                number += len(batch)

    @contextmanager
    def _open(self) -> Generator[Any]:
        import pyarrow
        from pyarrow import parquet

        try:
            with (
                self.file.open("rb") as file,
                parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False) as opened,
            ):
                yield opened
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{self.file} cannot be read: {reason}.") from None

    def _columns(self, opened: Any) -> list[str]:
        """Returns the names of the columns of the two sides."""
        paths = [opened.schema.column(index).path for index in range(len(opened.schema))]
        wanted = [self.source, self.target]
        for names in (wanted, [f"translation.{name}" for name in wanted]):
            if {*names} <= {*paths}:
                return names
        raise ValueError(
            f"{self.file} must have columns {self.source} and {self.target}, perhaps below "
            f"translation; it has {', '.join(paths)}."
        )


def _rows(batch: Any, names: list[str]) -> list[tuple[object, object]]:
    """Returns the values of two columns. names: as "en", or "translation.en" of a field."""
    import pyarrow

    table = pyarrow.Table.from_batches([batch]).flatten()
    source, target = (table.column(name).to_pylist() for name in names)
    return list(zip(source, target, strict=True))
