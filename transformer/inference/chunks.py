"""Text of any length -> chunks of lines: the unit of work, of order and of resuming.

A chunk is a function of the text alone: whoever reads it again, on whatever host, finds the same.
"""

import zlib
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat

CHUNK_LINES = 8192
CHUNK_CHARACTERS = 2**24  # a chunk with more ends early: memory is bounded whatever the lines are
FIRST_CHUNK_LINES = 64  # of a stream, whose reader should not wait long for the first line


@dataclass
class Chunk:
    """Some lines of a text. start: lines before them; share: of the text, read with them."""

    number: int
    start: int
    lines: list[str]
    companions: list[str] | None = None  # a target or a prefix of each line
    share: float | None = None

    @property
    def end(self):
        return self.start + len(self.lines)

    @cached_property
    def checksum(self):
        """Of everything a result depends on, as it stands in the name of a part."""
        text = "\n".join([*self.lines, *(self.companions or ())])
        return f"{zlib.crc32(text.encode(errors='surrogatepass')):08x}"


def read_chunks(lines, companions=None, sizes=None):
    """Yields the Chunks of `Lines`, each read when it is asked for and not before.

    companions: other `Lines`, which must be as many; sizes: how many lines the first, second, …
    have.
    """
    pairs = iter(_pairs(lines, companions)) if companions else zip(lines, repeat(""))
    sizes = iter(sizes or repeat(CHUNK_LINES))
    number = start = 0
    while rows := _take(pairs, next(sizes)):
        texts, others = (list(side) for side in zip(*rows, strict=True))
        yield Chunk(number, start, texts, others if companions else None, lines.fraction_read)
        number, start = number + 1, start + len(rows)


def stream_sizes(num_lines):
    """Few lines at first, so that something is seen soon, then ever more up to `num_lines`."""
    size = FIRST_CHUNK_LINES
    while True:
        yield min(size, num_lines)
        size = min(2 * size, num_lines)


def _take(pairs, num_lines):
    """The next `num_lines` pairs, or fewer if they are very long."""
    rows, num_characters = [], 0
    for row in islice(pairs, num_lines):
        rows.append(row)
        num_characters += len(row[0]) + len(row[1])
        if num_characters > CHUNK_CHARACTERS:
            break
    return rows


def _pairs(lines, companions):
    first, second = iter(lines), iter(companions)
    count = 0
    for line in first:
        other = next(second, None)
        if other is None:
            check_equal(lines.name, count + 1 + sum(1 for _ in first), companions.name, count)
        yield line, other
        count += 1
    check_equal(lines.name, count, companions.name, count + sum(1 for _ in second))


def check_equal(name, num_lines, other_name, num_other_lines):
    """ValueError with both counts if they differ, as lines have to pair."""
    if num_lines != num_other_lines:
        raise ValueError(
            f"{name} has {num_lines} lines and {other_name} has {num_other_lines}; they must pair."
        )
