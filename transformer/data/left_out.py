"""A sample of the pairs that are left out of the training text, by reason, to be looked through."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

LEFT_OUT = "left_out.tsv"
COLUMNS = "reason", "file", "number", "source", "target"
MOST = 20  # pairs of a reason
LONGEST = 500  # characters of a sentence that are shown
Thing = TypeVar("Thing")
Found = tuple[int, tuple[str, str]]  # (index of a pair in its block, the pair)
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


class LeftOutPair(NamedTuple):
    """A pair of the text and why it is left out.

    file: with its folder, or the name of a corpus without files. number: of the line or pair in it,
    from 1.
    """

    reason: str
    file: str
    number: int
    source: str
    target: str


def spread(things: Sequence[Thing]) -> list[Thing]:
    """Returns at most `MOST` of the things, from the first on, with as many between each two."""
    if len(things) <= MOST:
        return list(things)
    return [things[n * len(things) // MOST] for n in range(MOST)]


def spread_each(sample: Iterable[LeftOutPair]) -> list[LeftOutPair]:
    """Returns at most `MOST` pairs of each reason, in their order, of one reason after another."""
    by_reason: dict[str, list[LeftOutPair]] = {}
    for pair in sample:
        by_reason.setdefault(pair.reason, []).append(pair)
    return [pair for pairs in by_reason.values() for pair in spread(pairs)]


def sample_of(name: str, first: int, by_reason: Mapping[str, Sequence[Found]]) -> list[LeftOutPair]:
    """Returns at most `MOST` pairs of each reason.

    name: of the file or corpus that a block is from. first: the number of its first pair there.
    by_reason: the pairs that are left out, with their indices in the block.
    """
    short = "/".join(Path(name).parts[-2:])
    return [
        LeftOutPair(reason, short, first + index, *(side[: LONGEST + 1] for side in pair))
        for reason, found in by_reason.items()
        for index, pair in spread(found)
    ]


def format_sample(sample: Iterable[LeftOutPair]) -> str:
    r"""Returns the content of left_out.tsv: a line per pair; \t, \n, \r and \\ stand for one each.

    >>> format_sample([LeftOutPair("equal sides", "c/train.en", 7, "a\tb", "a\tb")])
    'reason\tfile\tnumber\tsource\ttarget\nequal sides\tc/train.en\t7\ta\\tb\ta\\tb\n'
    """
    rows: list[Iterable[object]] = [COLUMNS]
    for pair in sample:
        rows.append((*pair[:3], *map(_shown, pair[3:])))
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def _shown(sentence: str) -> str:
    cut = sentence[:LONGEST] + "…" if len(sentence) > LONGEST else sentence
    return cut.translate(ESCAPES)
