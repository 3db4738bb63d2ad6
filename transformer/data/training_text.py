"""The training text of a run: all corpora one after another, without the pairs that are left out.

It is read a block at a time and never held as a whole.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from transformer.config import DataConfig
from transformer.console import phase
from transformer.data.cleaning import KeepPairs, KeptPairs, no_pair_error
from transformer.data.held_out import HeldOut, held_out_parts
from transformer.data.overlap import EvaluationSets
from transformer.data.pair_blocks import NumberedBlock, Pairs
from transformer.data.parallel_text import (
    files_of,
    load_evaluation_pairs,
    parse_corpora,
    read_blocks,
)
from transformer.data.scripts import make_is_wrong
from transformer.data.workers import in_order, num_cores

SMALL_TEXT = 2**22  # bytes of files that are not worth the start of other processes
Result = TypeVar("Result")


@dataclass
class ChooseHeldOut:
    """Finds the pairs of a block whose source is held out: `ChooseHeldOut(config)(block)`."""

    config: DataConfig

    def __call__(self, numbered: NumberedBlock) -> Pairs:
        return HeldOut((), self.config).choose(numbered.block.decode().pairs)


class TrainingText:
    """The training split of every corpus of `config`.

    Making one raises ValueError if a corpus has no files or it is not known how its languages are
    written, where that matters; its methods raise it if a corpus cannot be read.
    """

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.corpora = parse_corpora(config.corpus)
        split = config.train_split
        # The files of each corpus.
        self.files = [files_of(corpus.name, split, config) for corpus in self.corpora]
        if config.drop_wrong_script:
            for language in (config.source_language, config.target_language):
                make_is_wrong(language)
        self.num_blocks = 0  # in all, once they were read

    @cached_property
    def held_out(self) -> Pairs:
        """The pairs of the first corpus whose source is held out; the text is read for them."""
        if not self.config.held_out:
            return []
        chosen = self.each(
            ChooseHeldOut(self.config), "finding what is held out", lambda block: block.corpus == 0
        )
        return [pair for pairs in chosen for pair in pairs]

    @cached_property
    def evaluation_pairs(self) -> dict[str, Pairs]:
        """The validation and the test split, unless they are held out of this text."""
        splits = dict.fromkeys((self.config.validation_split, self.config.test_split))
        held_out = held_out_parts(self.config)
        return {s: load_evaluation_pairs(self.config, s) for s in splits if s not in held_out}

    def held_out_splits(self, held_out: Pairs) -> dict[str, Pairs]:
        """Returns those of the two splits that are held out. held_out: as `held_out` has them."""
        splits = {self.config.validation_split, self.config.test_split}
        held_out_splits = splits - self.evaluation_pairs.keys()
        return {s: load_evaluation_pairs(self.config, s, held_out) for s in held_out_splits}

    @cached_property
    def evaluation(self) -> EvaluationSets:
        """The sentences of these splits; one that is held out has none that is in this text."""
        without_tag = self.corpora[0].take_tag_off
        splits = {
            split: [(without_tag(source), target) for source, target in pairs]
            for split, pairs in self.evaluation_pairs.items()
        }
        return EvaluationSets(splits, on_any_side=any(corpus.tag for corpus in self.corpora))

    def kept(self) -> Iterator[KeptPairs]:
        """Yields what is left of each block, read when it is asked for.

        Raises ValueError at the end if that is nothing.
        """
        # Without drop_overlap the evaluation sets, which may not be there, are not asked for.
        evaluation = self.evaluation if self.config.drop_overlap else EvaluationSets({})
        keep = KeepPairs(self.config, self.held_out, evaluation)
        num_kept, reasons = 0, Counter[str]()
        for numbered in self._blocks():
            kept = keep(numbered)
            num_kept += len(kept.pairs)
            for name, repairs in kept.repairs.items():
                reasons.update(repairs.named(name))
            reasons.update(kept.left_out)
            yield kept
        if not num_kept:
            raise no_pair_error(self.config, reasons)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs that may be trained on, one after another."""
        for kept in self.kept():
            yield from kept.pairs

    def each(
        self,
        function: Callable[[NumberedBlock], Result],
        name: str,
        is_wanted: Callable[[NumberedBlock], bool],
        one_in: int = 1,
    ) -> Iterator[Result]:
        """Yields function(block) of the blocks that are wanted, in order, from worker processes.

        name: of the phase that shows how many pairs are done, and how many a second.
        one_in: of how many blocks about one is wanted, for the time that is left.
        """
        at_work: deque[tuple[int, float]] = deque()  # (pairs of a block, about how many follow)

        def wanted() -> Iterator[NumberedBlock]:
            num_read = 0
            for numbered in self._blocks():
                number, share = numbered.block.num_pairs, self._share_read(numbered)
                num_read += number
                if is_wanted(numbered):
                    at_work.append((number, num_read * (1 / share - 1) / one_in if share else 0))
                    yield numbered

        num_workers = self.config.prepare_workers or num_cores()
        if sum(self._sizes) < SMALL_TEXT:
            num_workers = 1
        with phase(name) as this:
            this.unit = "pairs"
            for result in in_order(function, wanted(), num_workers):
                yield result
                number, num_left = at_work.popleft()
                this.advance(number)
                this.total = this.num_done + round(num_left)

    def _blocks(self) -> Iterator[NumberedBlock]:
        number = 0
        for index, corpus in enumerate(self.corpora):
            for block in read_blocks(corpus.name, self.config.train_split, self.config):
                yield NumberedBlock(number, index, block)
                number += 1
        self.num_blocks = number

    def _share_read(self, numbered: NumberedBlock) -> float:
        """Returns how much of the text has been read behind a block, by the size of its files."""
        before = sum(self._sizes[: numbered.corpus])
        here = numbered.block.share_read * self._sizes[numbered.corpus]
        return (before + here) / max(sum(self._sizes), 1)

    @cached_property
    def _sizes(self) -> list[int]:
        """The bytes of each corpus."""
        return [sum(file.stat().length for file in paths) for paths in self.files]
