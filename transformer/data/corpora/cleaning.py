"""Leaves out pairs that may not or need not be trained on, a block of the text at a time.

A sample of them is kept, to be looked through.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import regex

from transformer.config import DataConfig
from transformer.data.corpora.blocks import Block, Pair, Pairs
from transformer.data.corpora.corpora import Corpus, parse_corpora
from transformer.data.corpora.held_out import HELD_OUT_SOURCE, EvaluationSets, HeldOut, has_letter
from transformer.data.corpora.languages import STYLES, scripts_of
from transformer.data.files.text import Repairs
from transformer.data.rows.ragged import Ragged

LEFT_OUT = "left_out.tsv"
COLUMNS = "reason", "file", "number", "source", "target"
SAMPLE_SIZE = 20  # pairs of a reason, in a block and of the whole text
SHOWN_CHARACTERS = 500  # characters of a sentence that are shown
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
LEAST_SHARE = 0.5  # of the letters, that must be of the language's scripts
LARGE_SHARE = 0.1  # of a training text; a filter that takes more is probably a mistake
LENGTH_SETTINGS = {"more than": "data.row_length", "a length ratio": "data.max_length_ratio"}


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


class KeptPairs(NamedTuple):
    """The pairs of a block that may be trained on, and what was repaired or left out, by reason.

    The sources have the tag of their corpus. indices: of the pairs in the block. overlap: of both
    sides, {index in the block: number of its sentence in the evaluation sets}. held_out: the pairs
    of the first corpus whose source is held out. sample: some pairs of each reason.
    """

    pairs: Pairs
    indices: np.ndarray
    overlap: list[dict[int, int]]
    held_out: Pairs
    repairs: Repairs
    left_out: Counter[str]
    sample: list[LeftOutPair]


@dataclass
class KeepPairs:
    """Leaves out pairs of a block, and puts tags on the others: `KeepPairs(…)(block)`.

    Some may not be seen: those that `config.held_out` keeps for other splits and, if
    `config.drop_overlap`, those with a sentence of the evaluation sets. Others need not: those with
    an empty side or, as `config` says, two equal sides, a side without letters or in a script that
    its language is not written in.

    held_out: the pairs of the first corpus whose source is held out. evaluation: the sets whose
    sentences are looked for.
    """

    config: DataConfig
    held_out: Pairs
    evaluation: EvaluationSets

    @cached_property
    def _held_out(self) -> HeldOut:
        return HeldOut(self.held_out, self.config)

    @cached_property
    def _corpora(self) -> list[Corpus]:
        return parse_corpora(self.config.corpus)

    @cached_property
    def _is_wrong_script(self) -> tuple[Callable[[str], bool], ...]:
        return tuple(map(make_is_wrong, (self.config.source_language, self.config.target_language)))

    def __call__(self, block: Block) -> KeptPairs:
        put_tag_on = self._corpora[block.corpus].put_tag_on
        pairs, repairs = block.decode()
        overlap = self.evaluation.find(pairs)
        overlapping = overlap[0].keys() | overlap[1].keys() if self.config.drop_overlap else ()
        kept, by_reason = [], dict[str, list[int]]()
        for index, pair in enumerate(pairs):
            reason = self._reason_to_skip(*pair)
            if not reason and index in overlapping:
                reason = "a sentence of the validation or test set"
            if reason:
                by_reason.setdefault(reason, []).append(index)
            else:
                kept.append(index)
        held_out = [] if block.corpus else by_reason.get(HELD_OUT_SOURCE, [])
        return KeptPairs(
            [(put_tag_on(pairs[index][0]), pairs[index][1]) for index in kept],
            np.array(kept, np.uint32),
            overlap,
            [pairs[index] for index in held_out],
            repairs,
            Counter({reason: len(indices) for reason, indices in by_reason.items()}),
            [
                left_out_pair(reason, block.files[0], block.first + index, pairs[index])
                for reason, indices in by_reason.items()
                for index in indices[:SAMPLE_SIZE]
            ],
        )

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
        if self.config.drop_wrong_script:
            is_wrong_source, is_wrong_target = self._is_wrong_script
            if is_wrong_source(source) or is_wrong_target(target):
                return "a side in a script of another language"
        return ""


def no_pair_error(config: DataConfig, left_out: Mapping[str, int]) -> ValueError:
    """Returns the error of a text of which nothing is left. left_out: what it held, by reason."""
    lengths = [setting for reason, (_, setting) in _by_length(left_out).items()]
    advice = f"; raise {' or '.join(lengths)}" if lengths else ""
    return ValueError(
        f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
        f"(left out: {dict(left_out) or 'nothing'}){advice}."
    )


def make_is_wrong(language: str) -> Callable[[str], bool]:
    """Returns the function that says whether most letters of a sentence are of other scripts.

    Letters that belong to no script, as ー and µ, do not count. Python's `unicodedata` knows no
    scripts; `regex`, which sacreBLEU brings along, has Unicode's. Raises ValueError if nothing is
    known of how the language is written.
    """
    scripts = scripts_of(language)
    if not scripts:
        raise ValueError(
            f"data.drop_wrong_script does not know how the language '{language}' is written: set "
            f"it to False, or name the language, and its files, with its script, as "
            f"{language}_Latn."
        )
    names = (name for script in scripts for name in STYLES.get(script, [script]))
    own_scripts = "".join(rf"\p{{Script={name}}}" for name in names)
    no_script = r"\p{Script=Common}\p{Script=Inherited}"
    right = regex.compile(rf"[\p{{L}}&&[{own_scripts}]]", regex.V1)
    wrong = regex.compile(rf"[\p{{L}}--[{own_scripts}{no_script}]]", regex.V1)

    def is_wrong(sentence: str) -> bool:
        num_wrong = len(wrong.findall(sentence))
        if not num_wrong:
            return False
        num_right = len(right.findall(sentence))
        return num_right < LEAST_SHARE * (num_right + num_wrong)

    return is_wrong


# ---- lengths in tokens


class Filtered(NamedTuple):
    """Which pairs may be trained on, and why the others may not."""

    kept: np.ndarray  # indices of pairs
    skipped: Counter[str]  # number of pairs by reason
    by_reason: dict[str, np.ndarray]  # their indices


def filter_by_length(
    source: Ragged, target: Ragged, row_length: int, max_length_ratio: float
) -> Filtered:
    """Finds the pairs whose sides both fit a row and are not too unequal in length.

    max_length_ratio: how many times as long as the shorter side the longer one may be; 0: no limit.
    """
    longest = np.maximum(source.lengths, target.lengths)
    shortest = np.minimum(source.lengths, target.lengths)
    too_long = longest > row_length
    uneven = ~too_long & (longest > (max_length_ratio or np.inf) * shortest)
    by_reason = {
        f"more than {row_length} pieces": np.flatnonzero(too_long),
        f"a length ratio above {max_length_ratio:g}": np.flatnonzero(uneven),
    }
    by_reason = {reason: indices for reason, indices in by_reason.items() if len(indices)}
    skipped = Counter({reason: len(indices) for reason, indices in by_reason.items()})
    return Filtered(np.flatnonzero(~too_long & ~uneven), skipped, by_reason)


def length_warnings(left_out: Mapping[str, int], num_kept: int) -> list[str]:
    """Returns a sentence for each limit of length that takes a large share of a training text.

    left_out: numbers of examples by reason, those of `filter_by_length` and perhaps others.
    """
    by_length = _by_length(left_out)
    total = num_kept + sum(count for count, _ in by_length.values())
    return [
        f"{count / total:.0%} of the training text is left out ({reason}): raise {setting}"
        for reason, (count, setting) in by_length.items()
        if count > LARGE_SHARE * total
    ]


def _by_length(left_out: Mapping[str, int]) -> dict[str, tuple[int, str]]:
    """Returns {reason: (number, its setting)} of the reasons of `filter_by_length`."""
    return {
        reason: (count, setting)
        for reason, count in left_out.items()
        for start, setting in LENGTH_SETTINGS.items()
        if reason.startswith(start)
    }


# ---- a sample of the pairs that are left out


def left_out_pair(reason: str, file: str, number: int, pair: Pair) -> LeftOutPair:
    """Returns a pair of a file with as much of its sentences as is shown."""
    source, target = (side[: SHOWN_CHARACTERS + 1] for side in pair)
    return LeftOutPair(reason, "/".join(Path(file).parts[-2:]), number, source, target)


def spread(sample: Iterable[LeftOutPair]) -> list[LeftOutPair]:
    """Returns `SAMPLE_SIZE` pairs of each reason or fewer, with as many between each two."""
    by_reason: dict[str, list[LeftOutPair]] = {}
    for pair in sample:
        by_reason.setdefault(pair.reason, []).append(pair)
    return [
        pairs[place * len(pairs) // SAMPLE_SIZE if len(pairs) > SAMPLE_SIZE else place]
        for pairs in by_reason.values()
        for place in range(min(SAMPLE_SIZE, len(pairs)))
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
    cut = sentence[:SHOWN_CHARACTERS] + "…" if len(sentence) > SHOWN_CHARACTERS else sentence
    return cut.translate(ESCAPES)
