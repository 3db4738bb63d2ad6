"""Finds sentences of the validation and test sets in the training text.

Scores of sentences that were trained on say little of others. Sentences are compared as for
`data.held_out`: without case, spaces and punctuation. Those without letters are left aside, as 5 %
and $5 would be the same one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from transformer.data.held_out import sentence_key
from transformer.data.scripts import has_letter

# Letters of ASCII that other characters become in casefold(), as ß becomes ss, are not among them.
KEPT = b"bcdegmopqruvxz0123456789"
LOWER = bytes(range(256)).lower()
NOT_KEPT = bytes(byte for byte in range(256) if LOWER[byte] not in KEPT + b"\n")
Pairs = Sequence[tuple[str, str]]


class Overlap(NamedTuple):
    """How many pairs of the evaluation sets have a sentence that is trained on.

    digest: of the evaluation sets. splits: by name, (number of such pairs, of all).
    """

    digest: str
    splits: dict[str, tuple[int, int]]

    def __str__(self) -> str:
        """Returns what to tell the user, or "" if there is no such pair."""
        parts = [
            f"{number:,} of {of_all:,} pairs of {split}"
            for split, (number, of_all) in self.splits.items()
            if number
        ]
        if not parts:
            return ""
        return (
            f"{' and '.join(parts)} have the source or the target of a pair that is trained on; "
            f"--config.data.drop_overlap leaves such training pairs out"
        )


class EvaluationSets:
    """The sentences that a run is scored on.

    splits: pairs by the name of their split. on_any_side: whether a source that is a target of the
    text is found, and the other way round, as in text of both directions.
    """

    def __init__(self, splits: Mapping[str, Pairs], *, on_any_side: bool = False) -> None:
        self._keys = {
            split: [[sentence_key(pair[side]) for pair in pairs] for side in (0, 1)]
            for split, pairs in splits.items()
        }
        sides = [[key for keys in self._keys.values() for key in keys[side]] for side in (0, 1)]
        self._on_any_side = on_any_side
        if on_any_side:
            self._sides = [_Sentences([*sides[0], *sides[1]])] * 2
        else:
            self._sides = list(map(_Sentences, sides))

    @cached_property
    def digest(self) -> str:
        """A hash of what is compared, and of the splits' names."""
        keys = json.dumps(self._keys, sort_keys=True)
        return hashlib.sha256(keys.encode()).hexdigest()[:12]

    def find(self, pairs: Pairs) -> list[dict[int, int]]:
        """Returns, for each side, {index of a pair: number of its sentence in these sets}.

        Pairs whose sentence is in no set are not in there.
        """
        sides = enumerate(self._sides)
        return [sentences.find([pair[side] for pair in pairs]) for side, sentences in sides]

    def count(self, found: Sequence[set[int]]) -> Overlap:
        """Returns the overlap with a text. found: the numbers of its sentences, of each side."""
        splits = {}
        if self._on_any_side:
            found = [found[0] | found[1]] * 2
        for split, keys in self._keys.items():
            are_found = (
                [sentences.numbers.get(key) in there for key in of_side]
                for sentences, there, of_side in zip(self._sides, found, keys, strict=True)
            )
            splits[split] = (sum(map(any, zip(*are_found, strict=True))), len(keys[0]))
        return Overlap(self.digest, splits)


class _Sentences:
    """Sentences of one language, by their `sentence_key`. numbers: from 0, of each key."""

    def __init__(self, keys: Iterable[str]) -> None:
        distinct = dict.fromkeys(key for key in keys if has_letter(key))
        self.numbers = {key: number for number, key in enumerate(distinct)}
        self._outlines = frozenset(_outlines(list(distinct)))

    def find(self, sentences: Sequence[str]) -> dict[int, int]:
        """Returns {index of a sentence: its number} of those that are among these.

        Few of them have the outline of one, so that the keys of all others need not be made.
        """
        if not self.numbers:
            return {}
        outlines = enumerate(_outlines(sentences))
        alike = [index for index, outline in outlines if outline in self._outlines]
        keys = ((index, sentence_key(sentences[index])) for index in alike)
        return {index: self.numbers[key] for index, key in keys if key in self.numbers}


def _outlines(sentences: Sequence[str]) -> list[bytes]:
    """Returns what sentences with the same key share, and few others of a Latin alphabet.

    That is fifteen letters of ASCII and the digits, of "Maße, 5 g" and "MASSE 5G" m e 5 g: a tenth
    of the work of a key.
    """
    lines = "\n".join(sentence.replace("\n", " ") for sentence in sentences)
    data = lines.encode("utf-8", "surrogatepass").translate(LOWER, NOT_KEPT)
    return data.split(b"\n")[: len(sentences)]  # of no sentence, split() makes a line
