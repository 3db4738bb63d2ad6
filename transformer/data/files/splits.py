"""Parses the name of a split, which may be a part of one: "train[10%:90%]", as TFDS writes it."""

import re
from typing import NamedTuple, Protocol, TypeVar

SPLIT = re.compile(r"([^\[\]]+)(?:\[(?:(\d+)%)?:(?:(\d+)%)?\])?")

Part = TypeVar("Part", covariant=True)


class Sliceable(Protocol[Part]):
    """A list, text or array, whose slices are of the type `Part`."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: slice, /) -> Part: ...


class Split(NamedTuple):
    """A split, and the part of it from one share of its items to another."""

    name: str
    start: float
    stop: float


def parse_split(text: str) -> Split:
    """Parses the name of a split; raises ValueError if it is none, or an empty part.

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


def part_of(items: Sliceable[Part], start: float, stop: float) -> Part:
    """Returns the items from one share of their number to another.

    >>> part_of("abcdefghij", 0.1, 0.9)
    'bcdefghi'
    """
    first, end = (round(100 * share) * len(items) // 100 for share in (start, stop))
    return items[first:end]


def folder_name(split: str) -> str:
    """Returns a name that a folder can have.

    >>> folder_name("train[:90%]"), folder_name("train[90%:]")
    ('train_0_90_', 'train_90_')
    """
    return re.sub(r"[^\w.-]+", "_", split.replace("[:", "[0%:"))
