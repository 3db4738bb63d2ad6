"""Leaves out pairs that may not or need not be trained on, a block of the text at a time.

A sample of them is kept, to be looked through.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer.config import DataConfig
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.held_out import HELD_OUT_SOURCE, EvaluationSets, HeldOut, has_letter
from transformer.data.corpora.languages import make_is_wrong
from transformer.data.corpora.pair_files import Block, Pair, Pairs
from transformer.data.files.text import Repairs
from transformer.data.rows.ragged import Ragged

LEFT_OUT = "left_out.tsv"
COLUMNS = "reason", "file", "number", "source", "target"
SAMPLE_SIZE = 20  # pairs of a reason, in a block and of the whole text
SHOWN_CHARACTERS = 500  # characters of a sentence that are shown
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
LARGE_SHARE = 0.1  # of a training text; a filter that takes more is probably a mistake
LENGTH_SETTINGS = {"more than": "data.row_length", "a length ratio": "data.max_length_ratio"}
# Why a pair is left out, its file with the folder or the name of its corpus, the number of its line
# or row from 1, and as much of its source and target as is shown.
LeftOutPair = tuple[str, str, int, str, str]


class KeptPairs(NamedTuple):
    """The pairs of a block that may be trained on, and what was repaired and left out.

    corpus: the index of its corpus. decoded: all pairs of the block. indices: of those that are
    kept. pairs: these, whose sources have the tag of their corpus. left_out: the indices of the
    others by reason. overlap: as of `EvaluationSets.find`.
    """

    corpus: int
    decoded: Pairs
    repairs: Repairs
    pairs: Pairs
    indices: np.ndarray
    left_out: dict[str, Any]
    overlap: list[tuple[int, int]]

    @property
    def held_out(self) -> Pairs:
        """The pairs of the first corpus whose source is held out."""
        indices = () if self.corpus else self.left_out.get(HELD_OUT_SOURCE, ())
        return [self.decoded[index] for index in indices]


class KeepPairs:
    """Leaves out pairs of a block, and puts tags on the others: `KeepPairs(…)(block)`.

    Some may not be seen: those that `config.held_out` keeps for other splits and, if
    `config.drop_overlap`, those with a sentence of the evaluation sets. Others need not: those with
    an empty side or, as `config` says, two equal sides, a side without letters or in a script that
    its language is not written in.
    """

    def __init__(self, config: DataConfig, held_out: Pairs, evaluation: EvaluationSets) -> None:
        """Takes the settings, the pairs that are held out, and the sets to look for."""
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
        return KeptPairs(block.corpus, decoded, repairs, pairs, indices, left_out, overlap)

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
    by_length = _by_length(left_out)
    total = num_kept + sum(count for count, _ in by_length.values())
    return [
        f"{count / total:.0%} of the training text is left out ({reason}): raise {setting}"
        for reason, (count, setting) in by_length.items()
        if count > LARGE_SHARE * total
    ]


def no_pair_error(config: DataConfig, left_out: Mapping[str, int]) -> ValueError:
    """Returns the error of a text of which nothing is left. left_out: what it held, by reason."""
    lengths = [setting for _, setting in _by_length(left_out).values()]
    advice = f"; raise {' or '.join(lengths)}" if lengths else ""
    return ValueError(
        f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
        f"(left out: {dict(left_out) or 'nothing'}){advice}."
    )


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
    rows: list[Iterable[object]] = [COLUMNS]
    for pairs in by_reason.values():
        rows += pairs[:: -(-len(pairs) // SAMPLE_SIZE)]
    return "".join("\t".join(str(cell).translate(ESCAPES) for cell in row) + "\n" for row in rows)
