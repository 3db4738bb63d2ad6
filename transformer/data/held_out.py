"""Holds sentence pairs of the training text out, for splits that a corpus has no files for.

Where a pair belongs follows from a hash of its source sentence alone. So the same sentences are
held out in whatever order the text stands and whatever is added to it, and pairs with the same
source are never on both sides. Sentences are compared without case, spaces and punctuation.
"""

import json
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

from etils import epath

from transformer.config import DataConfig

HELD_OUT = "held_out.json"
Pair = tuple[str, str]  # (source, target)
NOT_A_LETTER = re.compile(r"[\W_]+")
SHARE = re.compile(r"([^@,]+)@(\d+(?:\.\d+)?)%")
MOST = 50  # percent of the training text that may be held out


class Part(NamedTuple):
    """A split that is held out: the pairs whose hash is from `start` up to `stop`, out of 1."""

    start: float
    stop: float


def held_out_parts(config: DataConfig) -> dict[str, Part]:
    """Parses `data.held_out`: the part of the training text that each split is.

    Raises ValueError unless it is SPLIT@PERCENT% a few times, each split once, half at most.

    >>> held_out_parts(DataConfig(held_out="validation@10%,test@2.5%"))
    {'validation': Part(start=0.0, stop=0.1), 'test': Part(start=0.1, stop=0.125)}
    """
    parts: dict[str, Part] = {}
    percent = 0.0
    for text in filter(None, config.held_out.split(",")):
        match = SHARE.fullmatch(text.strip())
        if not match or match[1] in parts or not 0 < float(match[2]) <= MOST - percent:
            raise ValueError(
                f"data.held_out must be splits with their shares of the training text, {MOST}% in "
                f"all at most, such as validation@2%,test@2%, not '{config.held_out}'."
            )
        start, percent = percent, percent + float(match[2])
        parts[match[1]] = Part(start / 100, percent / 100)
    return parts


def held_out_pairs(pairs: Iterable[Pair], part: Part) -> list[Pair]:
    """Returns the pairs of a split that is held out, only the first one of each source.

    Pairs with an empty side or two equal sides are left out, as they test nothing.
    """
    kept: dict[str, Pair] = {}
    for source, target in pairs:
        key = sentence_key(source)
        if part.start <= position(key) < part.stop and target.strip() and source != target:
            kept.setdefault(key, (source, target))
    return [pair for key, pair in kept.items() if key]


def read_held_out(folder: epath.Path) -> list[Pair] | None:
    """Returns the pairs that held_out.json in a folder holds, of all splits; None without it.

    Raises ValueError if it is damaged.
    """
    if not (folder / HELD_OUT).exists():
        return None
    try:
        pairs = json.loads((folder / HELD_OUT).read_text(encoding="utf-8"))
        return [(str(source), str(target)) for source, target in pairs]
    except (ValueError, TypeError):
        raise ValueError(
            f"{folder / HELD_OUT} is damaged: restore it, or remove it to have the pairs found in "
            f"the training text again."
        ) from None


class HeldOut:
    """The sentences that training must not see: the source and the target of any held-out pair.

    pairs: those of the training split whose source is held out; others make no difference. Where
    corpora have tags, one may be of the other direction: neither sentence of a pair may be held out
    on any side then.
    """

    def __init__(self, pairs: Iterable[Pair], config: DataConfig) -> None:
        parts = held_out_parts(config).values()
        self._stop = max((part.stop for part in parts), default=0.0)
        chosen = self.choose(pairs)
        self._targets = {sentence_key(target) for _, target in chosen} - {""}
        self._sources = set[str]()  # besides those whose hash tells
        if "#" in config.corpus:
            self._targets |= {sentence_key(source) for source, _ in chosen} - {""}
            self._sources = self._targets

    def choose(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Returns the pairs whose source is held out."""
        return [pair for pair in pairs if self._is_held_out(pair[0])]

    def _is_held_out(self, source: str) -> bool:
        return position(sentence_key(source)) < self._stop

    def _is_other_source(self, source: str) -> bool:
        return bool(self._sources) and sentence_key(source) in self._sources

    def reason_to_skip(self, source: str, target: str) -> str:
        """Returns why a pair may not be trained on, or "" if it may."""
        if self._is_held_out(source) or self._is_other_source(source):
            return "a held-out source"
        return "a held-out target" if sentence_key(target) in self._targets else ""


def sentence_key(sentence: str) -> str:
    """Returns what two sentences share that differ in case, spaces and punctuation alone.

    >>> sentence_key("It's 5 o'clock!"), sentence_key("?!")
    ('its5oclock', '?!')
    """
    return NOT_A_LETTER.sub("", sentence.casefold()) or sentence.strip()


def position(key: str) -> float:
    """Returns a number from 0 up to 1 that depends on the text alone, evenly spread over texts."""
    digest = blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
