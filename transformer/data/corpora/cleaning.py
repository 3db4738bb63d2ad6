"""Which pairs of a text may be trained on: leaves out the others, a block of the text at a time.

Training must not see the sentences of held-out splits and, if that is asked for, of the evaluation
sets. A corpus may have no files for a split. Where a pair belongs then follows from a hash of its
source sentence alone. So the same sentences are held out in whatever order the text stands and
whatever is added to it, and pairs with the same source are never on both sides. Sentences are
compared without case, spaces and punctuation.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.languages import make_is_wrong
from transformer.data.corpora.pair_files import Block, Pair, Pairs
from transformer.data.files.text import Repairs
from transformer.data.rows.ragged import Ragged

HELD_OUT = "held_out.json"
# Letters of ASCII that other characters become in casefold(), as ß becomes ss, are not among them.
KEPT = b"bcdegmopqruvxz0123456789"
LOWER = bytes(range(256)).lower()
NOT_KEPT = bytes(byte for byte in range(256) if LOWER[byte] not in KEPT)
NOT_A_LETTER = re.compile(r"[\W_]+")
SHARE = re.compile(r"([^@,]+)@(\d+(?:\.\d+)?)%")
MOST_PERCENT = 50  # percent of the training text that may be held out
LEFT_OUT = "left_out.tsv"
COLUMNS = "reason", "file", "number", "source", "target"
SAMPLE_SIZE = 20  # pairs of a reason, in a block and of the whole text
SHOWN_CHARACTERS = 500  # characters of a sentence that are shown
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
LARGE_SHARE = 0.1  # of a training text; a filter that takes more is probably a mistake
LENGTH_SETTINGS = {"more than": "data.row_length", "a length ratio": "data.max_length_ratio"}
LeftOutPair = tuple[Any, ...]  # its `COLUMNS`; the number is of a line or row, from 1


# ---- sentences to compare


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


# ---- splits that are held out


def held_out_intervals(config: DataConfig) -> dict[str, tuple[float, float]]:
    """Parses `data.held_out`: the `position` of the pairs of each split, from and up to.

    Raises ValueError unless it is SPLIT@PERCENT% a few times, each split once, half at most.

    >>> held_out_intervals(DataConfig(held_out="validation@10%,test@2.5%"))
    {'validation': (0.0, 0.1), 'test': (0.1, 0.125)}
    """
    intervals, percent = dict[str, tuple[float, float]](), 0.0
    for text in filter(None, config.held_out.split(",")):
        match = SHARE.fullmatch(text.strip())
        if not match or match[1] in intervals or not 0 < float(match[2]) <= MOST_PERCENT - percent:
            raise ValueError(
                f"data.held_out must be splits with shares, {MOST_PERCENT}% in all at most, such "
                f"as validation@2%,test@2%, not '{config.held_out}'."
            )
        start, percent = percent, percent + float(match[2])
        intervals[match[1]] = start / 100, percent / 100
    return intervals


def held_out_pairs(pairs: Iterable[Pair], interval: tuple[float, float]) -> list[Pair]:
    """Returns the pairs of a split that is held out, only the first one of each source.

    Pairs with an empty side or two equal sides are left out, as they test nothing.
    """
    kept, (start, stop) = dict[str, Pair](), interval
    for source, target in pairs:
        key = sentence_key(source)
        if start <= position(key) < stop and target.strip() and source != target:
            kept.setdefault(key, (source, target))
    return [pair for key, pair in kept.items() if key]


def read_held_out(folder: epath.Path) -> list[Pair] | None:
    """Returns the pairs of held_out.json, None without it; raises ValueError if it is damaged."""
    if not (folder / HELD_OUT).exists():
        return None
    try:
        pairs = json.loads((folder / HELD_OUT).read_text(encoding="utf-8"))
        return [(str(source), str(target)) for source, target in pairs]
    except (ValueError, TypeError):
        raise ValueError(
            f"{folder / HELD_OUT} is damaged: restore it, or remove it to read the text again."
        ) from None


class HeldOut:
    """The sentences that training must not see: the source and the target of any held-out pair.

    pairs: those of the training text whose source is held out. Where corpora have tags, one may be
    of the other direction: neither sentence of a pair may be held out on any side then.
    """

    def __init__(self, pairs: Sequence[Pair], config: DataConfig) -> None:
        self._stop = max((stop for _, stop in held_out_intervals(config).values()), default=0.0)
        self._targets = {sentence_key(target) for _, target in pairs} - {""}
        self._sources = set[str]()  # besides those whose hash tells
        if "#" in config.corpus:
            self._targets |= {sentence_key(source) for source, _ in pairs} - {""}
            self._sources = self._targets

    def choose(self, block: Block) -> Pairs:
        """Returns the pairs of a block whose source is held out."""
        return [pair for pair in block.decode()[0] if position(sentence_key(pair[0])) < self._stop]

    def reason_to_skip(self, source: str, target: str) -> str:
        """Returns why a pair may not be trained on, or "" if it may."""
        key = sentence_key(source)
        if position(key) < self._stop or key in self._sources:
            return "a held-out source"
        return "a held-out target" if sentence_key(target) in self._targets else ""


# ---- evaluation sets


class EvaluationSets:
    """The sentences that a run is scored on: scores of those that are trained on say little.

    Those without letters are left aside, as 5 % and $5 would be the same one.

    splits: pairs by the name of their split. on_any_side: whether a source that is a target of the
    text is looked for, and the other way round, as in text of both directions. digest: a hash of
    what is compared, and of the splits' names.
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
        self._outlines = {_outline(key) for _, key in distinct}
        compared = json.dumps(self._keys, sort_keys=True)
        self.digest = hashlib.sha256(compared.encode()).hexdigest()[:12]

    def find(self, pairs: Sequence[Pair]) -> list[tuple[int, int]]:
        """Returns (index of a pair, number of its sentence in these sets) of all that are in one.

        Keys are made of those sentences alone that have the outline of one, which few have.
        """
        return [
            (index, self._numbers[key])
            for index, pair in enumerate(pairs if self._numbers else ())
            for side, sentence in zip(self._sides, pair, strict=True)
            if _outline(sentence) in self._outlines
            and (key := (side, sentence_key(sentence))) in self._numbers
        ]

    def count(self, numbers: set[int]) -> dict[str, tuple[int, int]]:
        """Returns {split: (number of its pairs with one of these sentences, of all)}."""
        overlap = {
            split: [any(self._numbers.get(key) in numbers for key in pair) for pair in pairs]
            for split, pairs in self._keys.items()
        }
        return {split: (sum(pairs), len(pairs)) for split, pairs in overlap.items()}


def _outline(sentence: str) -> bytes:
    """Returns what sentences with the same key share, and few others of a Latin alphabet.

    That is fifteen letters of ASCII and the digits, of "Maße, 5 g" and "MASSE 5G" m e 5 g: a fifth
    of the work of a key.
    """
    return sentence.encode("utf-8", "surrogatepass").translate(LOWER, NOT_KEPT)


# ---- cleaning


class KeptPairs(NamedTuple):
    """The pairs of a block that may be trained on, and what was repaired and left out.

    decoded: all pairs of the block. indices: of those that are kept. pairs: these, whose sources
    have the tag of their corpus. left_out: the indices of the others by reason. overlap: as of
    `EvaluationSets.find`.
    """

    decoded: Pairs
    repairs: Repairs
    pairs: Pairs
    indices: np.ndarray
    left_out: dict[str, Any]
    overlap: list[tuple[int, int]]


class KeepPairs:
    """Leaves out pairs of a block, and puts tags on the others: `KeepPairs(…)(block)`.

    Some may not be seen: those that `config.held_out` keeps for other splits and, if
    `config.drop_overlap`, those with a sentence of the evaluation sets. Others need not: those with
    an empty side or, as `config` says, two equal sides, a side without letters or in a script that
    its language is not written in.
    """

    def __init__(self, config: DataConfig, held_out: Pairs, evaluation: EvaluationSets) -> None:
        self.config, self.evaluation = config, evaluation
        self._corpora, self._held_out = parse_corpora(config.corpus), HeldOut(held_out, config)
        languages = config.languages if config.drop_wrong_script else ()
        self._is_wrong = [make_is_wrong(language) for language in languages]

    def __call__(self, block: Block) -> KeptPairs:
        put_tag_on = self._corpora[block.corpus].put_tag_on
        decoded, repairs = block.decode()
        overlap = self.evaluation.find(decoded)
        overlapping = {index for index, _ in overlap} if self.config.drop_overlap else ()
        kept, left_out = [], dict[str, list[int]]()
        for index, pair in enumerate(decoded):
            reason = self._reason_to_skip(*pair)
            if not reason and index in overlapping:
                reason = "a sentence of the validation or test set"
            if reason:
                left_out.setdefault(reason, []).append(index)
            else:
                kept.append(index)
        pairs = [(put_tag_on(decoded[index][0]), decoded[index][1]) for index in kept]
        indices = np.array(kept, np.uint32)
        return KeptPairs(decoded, repairs, pairs, indices, left_out, overlap)

    def _reason_to_skip(self, source: str, target: str) -> str:
        """Returns why a pair is left out for what it is by itself, or "" if it is not."""
        if self.config.held_out and (reason := self._held_out.reason_to_skip(source, target)):
            return reason
        source, target = source.strip(), target.strip()
        if not source or not target:
            return "an empty side"
        if self.config.drop_identical and source == target:
            return "equal sides"
        if self.config.drop_without_letters and not (has_letter(source) and has_letter(target)):
            return "a side without letters"
        if self._is_wrong and (self._is_wrong[0](source) or self._is_wrong[1](target)):
            return "a side in a script of another language"
        return ""


# ---- lengths in tokens


def filter_by_length(
    source: Ragged, target: Ragged, row_length: int, max_length_ratio: float
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Returns (indices of the pairs that fit a row, those of the others by reason).

    max_length_ratio: how many times as long as the shorter side the longer one may be; 0: no limit.
    """
    longest = np.maximum(source.lengths, target.lengths)
    shortest = np.minimum(source.lengths, target.lengths)
    too_long = longest > row_length
    uneven = ~too_long & (longest > (max_length_ratio or np.inf) * shortest)
    left_out = {
        f"more than {row_length} pieces": np.flatnonzero(too_long),
        f"a length ratio above {max_length_ratio:g}": np.flatnonzero(uneven),
    }
    kept = np.flatnonzero(~too_long & ~uneven)
    return kept, {reason: indices for reason, indices in left_out.items() if len(indices)}


def length_warnings(left_out: Mapping[str, int], num_kept: int) -> list[str]:
    """Returns a sentence for each limit of length that takes a large share of a training text.

    left_out: numbers of examples by reason, those of `filter_by_length` and perhaps others.
    """
    by_length = [
        (reason, count, setting)
        for reason, count in left_out.items()
        for start, setting in LENGTH_SETTINGS.items()
        if reason.startswith(start)
    ]
    total = num_kept + sum(count for _, count, _ in by_length)
    return [
        f"{count / total:.0%} of the training text is left out ({reason}): raise {setting}"
        for reason, count, setting in by_length
        if count > LARGE_SHARE * total
    ]


def no_pair_error(config: DataConfig, left_out: Mapping[str, int]) -> ValueError:
    """Returns the error of a text of which nothing is left. left_out: what it held, by reason."""
    advice = "".join(f"; {warning}" for warning in length_warnings(left_out, 0))
    return ValueError(
        f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
        f"(left out: {dict(left_out) or 'nothing'}){advice}."
    )


# ---- a sample of the pairs that are left out


def left_out_pair(reason: str, file: str, number: int, pair: Pair) -> LeftOutPair:
    """Returns a pair of a file with as much of its sentences as is shown."""
    most = SHOWN_CHARACTERS
    source, target = (side[:most] + "…" * (len(side) > most) for side in pair)
    return reason, "/".join(Path(file).parts[-2:]), number, source, target


def format_sample(sample: Iterable[LeftOutPair]) -> str:
    r"""Returns the content of left_out.tsv: a line for each of 20 pairs of a reason or fewer.

    They are from all over the sample. \t, \n, \r and \\ stand for one each.

    >>> format_sample([("equal sides", "c/train.en", 7, "a\tb", "a\tb")])
    'reason\tfile\tnumber\tsource\ttarget\nequal sides\tc/train.en\t7\ta\\tb\ta\\tb\n'
    """
    by_reason: dict[str, list[LeftOutPair]] = {}
    for pair in sample:
        by_reason.setdefault(pair[0], []).append(pair)
    rows: list[LeftOutPair] = [COLUMNS]
    for pairs in by_reason.values():
        rows += pairs[:: -(-len(pairs) // SAMPLE_SIZE)]
    return "".join("\t".join(str(cell).translate(ESCAPES) for cell in row) + "\n" for row in rows)
