"""Sentence pairs as they are read, a block at a time, so that a corpus may be of any size.

A block is cut out of the files by their line feeds alone; decoding it is for another process.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from transformer.data.splits import Split, part_of
from transformer.data.text_files import Repairs, decode_line, open_lines

PAIRS_OF_BLOCK = 50_000
Pairs = list[tuple[str, str]]  # (source, target)


class Decoded(NamedTuple):
    """The pairs of a block, and what was repaired in the lines of each file, by its name."""

    pairs: Pairs
    repairs: dict[str, Repairs]


class Block(Protocol):
    """Neighbouring pairs of a corpus as they were read; it can be sent to another process."""

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        ...

    @property
    def share_read(self) -> float:
        """How much of the corpus has been read behind this block, from 0 to 1; 0 if unknown."""
        ...

    def decode(self) -> Decoded:
        """Returns the pairs; raises ValueError for a line that is none."""
        ...


class TextBlock(NamedTuple):
    """Lines of one .tsv file or of two files, of which each has a side of every pair."""

    files: tuple[str, ...]
    first: int  # the number of the first line, from 1
    columns: tuple[bytes, ...]  # the lines of each file, each with a line feed behind it
    share_read: float

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return self.columns[0].count(b"\n")

    def decode(self) -> Decoded:
        """Returns the pairs; raises ValueError for a line of a .tsv without two columns."""
        repairs = {file: Repairs() for file in self.files}
        columns = [
            [
                decode_line(line, number, repairs[file])
                for number, line in enumerate(column.split(b"\n")[:-1], self.first)
            ]
            for file, column in zip(self.files, self.columns, strict=True)
        ]
        pairs = self._split(columns[0]) if len(columns) == 1 else list(zip(*columns, strict=True))
        return Decoded(pairs, repairs)

    def _split(self, lines: list[str]) -> Pairs:
        rows = [line.split("\t") for line in lines]
        for number, row in enumerate(rows, self.first):
            if len(row) != 2:
                raise ValueError(
                    f"{self.files[0]} line {number} must be SOURCE<tab>TARGET, but has {len(row)} "
                    f"columns."
                )
        return [(row[0], row[1]) for row in rows]


class PairBlock(NamedTuple):
    """Pairs that are text already."""

    pairs: Pairs
    share_read: float

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return len(self.pairs)

    def decode(self) -> Decoded:
        """Returns the pairs."""
        return Decoded(self.pairs, {})


def add_repairs(repairs: dict[str, Repairs], later: dict[str, Repairs]) -> None:
    """Adds the repairs of a later block to those of the blocks before it, file by file."""
    for name, found in later.items():
        repairs.setdefault(name, Repairs()).add(found.counts, found.first)


def blocks_of_pairs(pairs: Iterable[tuple[str, str]], number: int) -> Iterator[Block]:
    """Yields pairs that are text already. number: of all of them."""
    pairs, num_read = iter(pairs), 0
    while block := list(islice(pairs, PAIRS_OF_BLOCK)):
        num_read += len(block)
        yield PairBlock(block, num_read / max(number, 1))


def blocks_of_files(paths: list[Path], part: Split) -> Iterator[Block]:
    """Yields the lines of one .tsv file, or of two files side by side.

    Raises ValueError if a file cannot be read, or two have different numbers of lines.
    """
    first, end = 0, None
    if (part.start, part.stop) != (0, 1):  # a share of a number that is not known yet
        first, end = _lines_of_part(paths, part)
    files = [open_lines(path) for path in paths]
    lines = [islice(file.undecoded(), first, end) for file in files]
    while True:
        columns = [list(islice(column, PAIRS_OF_BLOCK)) for column in lines]
        if len(set(map(len, columns))) > 1:
            ahead = [first + len(column) for column in columns]
            _refuse_unequal(paths, [n + _count(f) for n, f in zip(ahead, lines, strict=True)])
        if not columns[0]:
            return
        texts, share = tuple(map(b"".join, columns)), files[0].fraction_read or 0.0
        yield TextBlock(tuple(map(str, paths)), first + 1, texts, share)
        first += len(columns[0])


def _lines_of_part(paths: list[Path], part: Split) -> tuple[int, int]:
    """Returns (number of lines before a part of a split, number of lines before its end)."""
    counts = [_count(open_lines(path).undecoded()) for path in paths]
    if len(set(counts)) > 1:
        _refuse_unequal(paths, counts)
    lines = part_of(range(counts[0]), part.start, part.stop)
    return lines.start, lines.stop


def _count(lines: Iterable[bytes]) -> int:
    return sum(1 for _ in lines)


def _refuse_unequal(paths: list[Path], counts: list[int]) -> None:
    raise ValueError(
        f"The two sides must have equally many lines, but {paths[0]} has {counts[0]} and "
        f"{paths[1]} has {counts[1]}."
    )
