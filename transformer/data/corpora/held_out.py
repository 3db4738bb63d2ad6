"""Sentences that training must not see: held-out splits of its text, and evaluation sets.

A corpus may have no files for a split. Where a pair belongs then follows from a hash of its source
sentence alone. So the same sentences are held out in whatever order the text stands and whatever is
added to it, and pairs with the same source are never on both sides. Sentences are compared without
case, spaces and punctuation.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

from etils import epath

from transformer.config import DataConfig
from transformer.data.corpora.pair_files import Pair

HELD_OUT = "held_out.json"
HELD_OUT_SOURCE = "a held-out source"
# Letters of ASCII that other characters become in casefold(), as ß becomes ss, are not among them.
KEPT = b"bcdegmopqruvxz0123456789"
LOWER = bytes(range(256)).lower()
NOT_KEPT = bytes(byte for byte in range(256) if LOWER[byte] not in KEPT + b"\n")
NOT_A_LETTER = re.compile(r"[\W_]+")
SHARE = re.compile(r"([^@,]+)@(\d+(?:\.\d+)?)%")
MOST_PERCENT = 50  # percent of the training text that may be held out


class Interval(NamedTuple):
    """A split that is held out: the pairs whose hash is from `start` up to `stop`, out of 1."""

    start: float
    stop: float


def held_out_intervals(config: DataConfig) -> dict[str, Interval]:
    """Parses `data.held_out`: the hashes of the pairs of each split.

    Raises ValueError unless it is SPLIT@PERCENT% a few times, each split once, half at most.

    >>> held_out_intervals(DataConfig(held_out="validation@10%,test@2.5%"))
    {'validation': Interval(start=0.0, stop=0.1), 'test': Interval(start=0.1, stop=0.125)}
    """
    intervals: dict[str, Interval] = {}
    percent = 0.0
    for text in filter(None, config.held_out.split(",")):
        match = SHARE.fullmatch(text.strip())
        if not match or match[1] in intervals or not 0 < float(match[2]) <= MOST_PERCENT - percent:
            raise ValueError(
                f"data.held_out must be splits with their shares of the training text, "
                f"{MOST_PERCENT}% in all at most, such as validation@2%,test@2%, not "
                f"'{config.held_out}'."
            )
        start, percent = percent, percent + float(match[2])
        intervals[match[1]] = Interval(start / 100, percent / 100)
    return intervals


def held_out_pairs(pairs: Iterable[Pair], interval: Interval) -> list[Pair]:
    """Returns the pairs of a split that is held out, only the first one of each source.

    Pairs with an empty side or two equal sides are left out, as they test nothing.
    """
    kept: dict[str, Pair] = {}
    for source, target in pairs:
        key = sentence_key(source)
        if interval.start <= position(key) < interval.stop and target.strip() and source != target:
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
        intervals = held_out_intervals(config).values()
        self._stop = max((interval.stop for interval in intervals), default=0.0)
        chosen = self.choose(pairs)
        self._targets = {sentence_key(target) for _, target in chosen} - {""}
        self._sources = set[str]()  # besides those whose hash tells
        if "#" in config.corpus:
            self._targets |= {sentence_key(source) for source, _ in chosen} - {""}
            self._sources = self._targets

    def choose(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Returns the pairs whose source is held out."""
        return [pair for pair in pairs if position(sentence_key(pair[0])) < self._stop]

    def reason_to_skip(self, source: str, target: str) -> str:
        """Returns why a pair may not be trained on, or "" if it may."""
        key = sentence_key(source)
        if position(key) < self._stop or key in self._sources:
            return HELD_OUT_SOURCE
        return "a held-out target" if sentence_key(target) in self._targets else ""


def has_letter(sentence: str) -> bool:
    """Whether a sentence has a character that Unicode calls a letter (L*)."""
    return any(map(str.isalpha, sentence))


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


class EvaluationSets:
    """The sentences that a run is scored on: scores of those that are trained on say little.

    Those without letters are left aside, as 5 % and $5 would be the same one.

    splits: pairs by the name of their split. on_any_side: whether a source that is a target of the
    text is looked for, and the other way round, as in text of both directions.
    """

    def __init__(self, splits: Mapping[str, Sequence[Pair]], *, on_any_side: bool = False) -> None:
        self._sides = (0, 0) if on_any_side else (0, 1)  # 0: sentences that are equal to sources
        self._keys = {
            split: [list(zip(self._sides, map(sentence_key, pair), strict=True)) for pair in pairs]
            for split, pairs in splits.items()
        }
        keys = (key for pairs in self._keys.values() for pair in pairs for key in pair)
        distinct = dict.fromkeys(key for key in keys if has_letter(key[1]))
        self._numbers = {key: number for number, key in enumerate(distinct)}
        self._outlines = frozenset(_outlines([key for _, key in distinct]))

    @cached_property
    def digest(self) -> str:
        """A hash of what is compared, and of the splits' names."""
        keys = json.dumps(self._keys, sort_keys=True)
        return hashlib.sha256(keys.encode()).hexdigest()[:12]

    def find(self, pairs: Sequence[Pair]) -> list[tuple[int, int]]:
        """Returns (index of a pair, number of its sentence in these sets) of all that are in one.

        Keys are made of those sentences alone that have the outline of one, which few have.
        """
        places = []
        for side, compared_side in enumerate(self._sides) if self._numbers else ():
            sentences = [pair[side] for pair in pairs]
            outlines = enumerate(_outlines(sentences))
            for index in [index for index, outline in outlines if outline in self._outlines]:
                number = self._numbers.get((compared_side, sentence_key(sentences[index])))
                if number is not None:
                    places.append((index, number))
        return places

    def count(self, numbers: set[int]) -> dict[str, tuple[int, int]]:
        """Returns {split: (number of its pairs with one of these sentences, of all)}."""
        return {
            split: (
                sum(any(self._numbers.get(key) in numbers for key in pair) for pair in pairs),
                len(pairs),
            )
            for split, pairs in self._keys.items()
        }


def _outlines(sentences: Sequence[str]) -> list[bytes]:
    """Returns what sentences with the same key share, and few others of a Latin alphabet.

    That is fifteen letters of ASCII and the digits, of "Maße, 5 g" and "MASSE 5G" m e 5 g: a tenth
    of the work of a key.
    """
    lines = "\n".join(sentence.replace("\n", " ") for sentence in sentences)
    data = lines.encode("utf-8", "surrogatepass").translate(LOWER, NOT_KEPT)
    return data.split(b"\n")[: len(sentences)]  # of no sentence, split() makes a line
