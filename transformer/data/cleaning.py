"""Leaves out pairs that may not or need not be trained on, a block of the text at a time."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from transformer.config import DataConfig
from transformer.data.held_out import HeldOut
from transformer.data.left_out import Found, LeftOutPair, sample_of
from transformer.data.overlap import EvaluationSets
from transformer.data.pair_blocks import NumberedBlock, Pairs
from transformer.data.parallel_text import Corpus, parse_corpora
from transformer.data.scripts import has_letter, make_is_wrong
from transformer.data.text_files import Repairs


class KeptPairs(NamedTuple):
    """The pairs of a block that may be trained on, and what was repaired or left out, by reason.

    The sources have the tag of their corpus. indices: of the pairs in the block. overlap: of both
    sides, {index in the block: number of its sentence in the evaluation sets}. sample: some pairs
    of each reason.
    """

    pairs: Pairs
    indices: np.ndarray
    overlap: list[dict[int, int]]
    repairs: dict[str, Repairs]
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

    def __call__(self, numbered: NumberedBlock) -> KeptPairs:
        block, put_tag_on = numbered.block, self._corpora[numbered.corpus].put_tag_on
        pairs, repairs = block.decode()
        overlap = self.evaluation.find(pairs)
        overlapping = overlap[0].keys() | overlap[1].keys() if self.config.drop_overlap else ()
        kept, by_reason = [], dict[str, list[Found]]()
        for index, pair in enumerate(pairs):
            reason = self._reason_to_skip(*pair)
            if not reason and index in overlapping:
                reason = "a sentence of the validation or test set"
            if reason:
                by_reason.setdefault(reason, []).append((index, pair))
            else:
                kept.append(index)
        return KeptPairs(
            [(put_tag_on(pairs[index][0]), pairs[index][1]) for index in kept],
            np.array(kept, np.uint32),
            overlap,
            repairs,
            Counter({reason: len(found) for reason, found in by_reason.items()}),
            sample_of(block.name, block.first, by_reason),
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


def no_pair_error(config: DataConfig, left_out: Counter[str]) -> ValueError:
    """Returns the error of a text of which nothing is left. left_out: what it held, by reason."""
    return ValueError(
        f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
        f"(left out: {dict(left_out) or 'nothing'})."
    )
