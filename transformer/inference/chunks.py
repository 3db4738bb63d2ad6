"""Divides a text of any length into chunks of lines: the unit of work, of order and of resuming.

A chunk depends on the text alone, so that every host that reads the text finds the same chunks.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat, zip_longest

from transformer.data.files.text import Lines

CHUNK_LINES = 8192
FIRST_CHUNK_LINES = 64  # of a stream, whose reader should not wait long for the first line


@dataclass
class Chunk:
    """Consecutive lines of a text.

    start: number of lines before them. companions: a target or a prefix per line.
    fraction_read: of the bytes of the text, up to the end of the chunk; None if it is not known.
    """

    number: int
    start: int
    lines: list[str]
    companions: list[str] | None = None
    fraction_read: float | None = None

    @property
    def end(self) -> int:
        """The number of lines before the next chunk."""
        return self.start + len(self.lines)

    @cached_property
    def checksum(self) -> str:
        """Eight hexadecimal digits that depend on the lines and their companions."""
        text = "\n".join([*self.lines, *(self.companions or ())])
        return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def read_chunks(
    lines: Lines, companions: Lines | None = None, sizes: Iterable[int] | None = None
) -> Iterator[Chunk]:
    """Yields the chunks of a text and reads each only when it is asked for.

    companions: a file with as many lines, else ValueError. sizes: the number of lines of the first,
    second, … chunk; None: `CHUNK_LINES` each.
    """
    pairs = iter(_pair_lines(lines, companions)) if companions else zip(lines, repeat(""))
    sizes = iter(sizes or repeat(CHUNK_LINES))
    number = start = 0
    while rows := list(islice(pairs, next(sizes))):
        texts, others = (list(side) for side in zip(*rows, strict=True))
        yield Chunk(number, start, texts, others if companions else None, lines.fraction_read)
        number, start = number + 1, start + len(rows)


def stream_sizes(num_lines: int) -> Iterator[int]:
    """Yields small sizes first, so that output appears soon: 64, 128, … up to `num_lines`."""
    size = FIRST_CHUNK_LINES
    while True:
        yield min(size, num_lines)
        size = min(2 * size, num_lines)


def _pair_lines(lines: Lines, companions: Lines) -> Iterator[tuple[str, str]]:
    num_lines = num_companions = 0
    for line, other in zip_longest(lines, companions):
        num_lines += line is not None
        num_companions += other is not None
        if line is not None and other is not None:
            yield line, other
    check_equal(lines.name, num_lines, companions.name, num_companions)


def check_equal(name: str, num_lines: int, other_name: str, num_other_lines: int) -> None:
    """Raises ValueError with both numbers of lines if they differ."""
    if num_lines != num_other_lines:
        raise ValueError(
            f"{name} has {num_lines} lines and {other_name} has {num_other_lines}; they must pair."
        )
