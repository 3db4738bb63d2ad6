"""Keeps the devices busy while the host fetches results and makes the next batch."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def one_behind(items: Iterable[T]) -> Iterator[T]:
    """Yields each item once the next one has been made.

    Calls of compiled functions return before the devices have computed anything. Where an item is
    what such a call returned, its values are thus fetched when the next call has been made already.

    >>> def made():
    ...     for item in "ab":
    ...         print("make", item)
    ...         yield item
    >>> for item in one_behind(made()):
    ...     print("fetch", item)
    make a
    make b
    fetch a
    fetch b
    """
    iterator = iter(items)
    for previous in iterator:
        for item in iterator:
            yield previous
            previous = item
        yield previous
