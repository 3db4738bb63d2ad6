"""A sample of the pairs that are left out of the training text, by reason, to be looked through."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

LEFT_OUT = "left_out.tsv"
COLUMNS = "reason", "file", "number", "source", "target"
MOST = 20  # pairs of a reason
LONGEST = 500  # characters of a sentence that are shown
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
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


def choose(numbers: np.ndarray) -> np.ndarray:
    """Returns the indices of at most `MOST` numbers of lines, evenly spread over the file.

    They are those n for which n times the golden ratio is least above a whole number. What is
    chosen of a whole therefore is chosen of each part, too.
    """
    return np.sort(np.argsort(numbers.astype(np.uint64) * GOLDEN, kind="stable")[:MOST])


def choose_of_each(sample: Sequence[LeftOutPair]) -> list[LeftOutPair]:
    """Returns at most `MOST` pairs of each reason, in their order, of one reason after another."""
    chosen: list[LeftOutPair] = []
    for reason in dict.fromkeys(pair.reason for pair in sample):
        pairs = [pair for pair in sample if pair.reason == reason]
        chosen += [pairs[i] for i in choose(np.array([pair.number for pair in pairs]))]
    return chosen


def sample_of(
    pairs: Sequence[tuple[str, str]] | Mapping[int, tuple[str, str]],
    name: str,
    first: int,
    by_reason: Mapping[str, Sequence[int] | np.ndarray],
) -> list[LeftOutPair]:
    """Returns at most `MOST` pairs of each reason.

    pairs: of a block, by their indices in it. name: of its file or corpus. first: the number of its
    first pair there. by_reason: indices of pairs.
    """
    short = "/".join(Path(name).parts[-2:])
    sample = []
    for reason, indices in by_reason.items():
        where = np.asarray(indices, np.int64)
        for i in where[choose(where + first)].tolist():
            source, target = (side[: LONGEST + 1] for side in pairs[i])
            sample.append(LeftOutPair(reason, short, first + i, source, target))
    return sample


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
