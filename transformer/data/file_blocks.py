"""Reads files of sentence pairs a block at a time, one after another: two files, .tsv or .jsonl."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, NoReturn, Protocol

from etils import epath

from transformer.data import pair_blocks
from transformer.data.pair_blocks import Block, ParseLine, RowBlock, TextBlock
from transformer.data.pair_files import PairFiles
from transformer.data.splits import Split, part_of
from transformer.data.text_files import open_lines


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
        with suppress(ValueError, RecursionError, LookupError, AttributeError, TypeError):
            value = json.loads(line)
            value = value.get("translation", value)
            source, target = value[self.source], value[self.target]
        if isinstance(source, str) and isinstance(target, str):
            return source, target
        raise ValueError(
            f'must be a JSON object of at most 1 MiB with a text each for "{self.source}" and '
            f'"{self.target}" (perhaps below "translation"), but begins with {line[:40]!r}'
        )


LINES_AT_ONCE = 64  # each at most 1 MiB
BYTES_OF_BLOCK = 2**27


class Table(Protocol):
    """A file, or two files side by side, with some pairs of a corpus."""

    def num_pairs(self) -> int:
        """Returns the number of pairs; raises ValueError if that fails."""
        ...

    def blocks(self, first: int, end: int | None) -> Iterator[TextBlock | RowBlock]:
        """Yields the pairs from number `first` up to `end`, or to the last; raises ValueError."""
        ...


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
    size, most = 0, pair_blocks.PAIRS_OF_BLOCK
    while size < BYTES_OF_BLOCK and (left := min(LINES_AT_ONCE, most - len(columns[0]))):
        parts = [list(islice(file, left)) for file in files]
        for column, part in zip(columns, parts, strict=True):
            column += part
            size += sum(map(len, part))
        if any(len(part) < left for part in parts):
            break
    return columns


def _count(lines: Iterable[bytes]) -> int:
    return sum(1 for _ in lines)


def open_table(found: PairFiles, source: str, target: str) -> Table:
    """Returns what reads these files. source, target: the languages."""
    if found.format == "parquet":
        from transformer.data.parquet import ParquetTable

        return ParquetTable(found.files[0], source, target)
    parsers = {"": None, "tsv": parse_tsv, "jsonl": ParseJson(source, target)}
    return TextTable(found.files, parsers[found.format])


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
