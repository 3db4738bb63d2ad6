"""Sentence pairs as they are read, a block at a time, so that a corpus may be of any size.

A block is cut out of the files by their line feeds alone; decoding it is for another process.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import NamedTuple, Protocol

from transformer.data.text_files import LINE_BREAK, NOT_UTF8, SURROGATE, Repairs, decode_line

PAIRS_OF_BLOCK = 50_000
Pairs = list[tuple[str, str]]  # (source, target)
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
        """The number of its first line, or pair, from 1."""
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
        """Returns the pairs; raises ValueError for a line that is none."""
        ...


class NumberedBlock(NamedTuple):
    """A block of the text. number: from 0, over all corpora; corpus: the index of its corpus."""

    number: int
    corpus: int
    block: Block


class TextBlock(NamedTuple):
    """Lines of one file with both sides of a pair in each, or of two files with a side each."""

    files: tuple[str, ...]
    first: int  # the number of the first line, from 1
    columns: tuple[bytes, ...]  # the lines of each file, each with a line feed behind it
    parse: ParseLine | None  # of a line with both sides
    share_read: float

    @property
    def name(self) -> str:
        """The file, the source's of two."""
        return self.files[0]

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return self.columns[0].count(b"\n")

    def decode(self) -> Decoded:
        """Returns the pairs; raises ValueError, with file and line, for a line that is none."""
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
                raise ValueError(f"{self.files[0]} line {number} {error}.") from None
        return Decoded(_on_one_line(pairs, self.first, repairs[self.files[0]]), repairs)


class RowBlock(NamedTuple):
    """Rows of a table."""

    file: str
    first: int  # the number of the first row, from 1
    rows: list[tuple[object, object]]
    share_read: float

    @property
    def name(self) -> str:
        """The file."""
        return self.file

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return len(self.rows)

    def decode(self) -> Decoded:
        """Returns the pairs; raises ValueError, with file and row, for one that is no text."""
        pairs: Pairs = []
        for number, (source, target) in enumerate(self.rows, self.first):
            if not isinstance(source, str) or not isinstance(target, str):
                wrong = target if isinstance(source, str) else source
                raise ValueError(f"{self.file} row {number} must hold texts, not {wrong!r}.")
            pairs.append((source, target))
        repairs = Repairs()
        return Decoded(_on_one_line(pairs, self.first, repairs), {self.file: repairs})


class PairBlock(NamedTuple):
    """Pairs that are text already. name: of the corpus. first: the number of the first, from 1."""

    name: str
    first: int
    pairs: Pairs
    share_read: float

    @property
    def num_pairs(self) -> int:
        """How many pairs it holds."""
        return len(self.pairs)

    def decode(self) -> Decoded:
        """Returns the pairs."""
        return Decoded(self.pairs, {})


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
        yield PairBlock(name, first, block, num_read / max(number, 1))
