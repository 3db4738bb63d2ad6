"""The training text of a run: all corpora one after another, without the pairs that are left out.

It is read a block at a time and never held as a whole.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from transformer.config import DataConfig
from transformer.console import phase
from transformer.data.held_out import HeldOut
from transformer.data.pair_blocks import Block, Pairs
from transformer.data.parallel_text import Corpus, files_of, parse_corpora, read_blocks
from transformer.data.text_files import Repairs
from transformer.data.workers import in_order, num_cores

SMALL_TEXT = 2**22  # bytes of files that are not worth the start of other processes
Result = TypeVar("Result")


class NumberedBlock(NamedTuple):
    """A block of the text. number: from 0, over all corpora; corpus: the index of its corpus."""

    number: int
    corpus: int
    block: Block


class KeptPairs(NamedTuple):
    """The pairs of a block that may be trained on, and what was repaired or left out, by reason."""

    pairs: Pairs
    repairs: dict[str, Repairs]
    left_out: Counter[str]


@dataclass
class KeepPairs:
    """Leaves out pairs that may not or need not be seen: `KeepPairs(…)(block)`.

    The former are those that `config.held_out` keeps for other splits; the latter have an empty
    side or, if `config.drop_identical`, two equal sides. The sources of the others get the tag of
    their corpus.

    held_out: the pairs of the first corpus whose source is held out.
    """

    config: DataConfig
    held_out: Pairs

    @cached_property
    def _held_out(self) -> HeldOut:
        return HeldOut(self.held_out, self.config)

    @cached_property
    def _corpora(self) -> list[Corpus]:
        return parse_corpora(self.config.corpus)

    def __call__(self, numbered: NumberedBlock) -> KeptPairs:
        pairs, repairs = numbered.block.decode()
        left_out = Counter[str]()
        if self.config.held_out:
            pairs, left_out = self._held_out.split_off(pairs)
        reasons = [self._reason_to_skip(*pair) for pair in pairs]
        left_out.update(filter(None, reasons))
        put_tag_on = self._corpora[numbered.corpus].put_tag_on
        kept = [
            (put_tag_on(source), target)
            for (source, target), reason in zip(pairs, reasons, strict=True)
            if not reason
        ]
        return KeptPairs(kept, repairs, left_out)

    def _reason_to_skip(self, source: str, target: str) -> str:
        """Returns why a pair teaches nothing, or "" if it may be trained on."""
        source, target = source.strip(), target.strip()
        if not source or not target:
            return "an empty side"
        return "equal sides" if self.config.drop_identical and source == target else ""


def no_pair_error(config: DataConfig, left_out: Counter[str]) -> ValueError:
    """Returns the error of a text of which nothing is left. left_out: what it held, by reason."""
    return ValueError(
        f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
        f"(left out: {dict(left_out) or 'nothing'})."
    )


@dataclass
class ChooseHeldOut:
    """Finds the pairs of a block whose source is held out: `ChooseHeldOut(config)(block)`."""

    config: DataConfig

    def __call__(self, numbered: NumberedBlock) -> Pairs:
        return HeldOut((), self.config).choose(numbered.block.decode().pairs)


class TrainingText:
    """The training split of every corpus of `config`.

    Making one raises ValueError if a corpus has no files, and its methods if one cannot be read.
    """

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.corpora = parse_corpora(config.corpus)
        split = config.train_split
        # The files of each corpus.
        self.files = [files_of(corpus.name, split, config) for corpus in self.corpora]
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

    def kept(self) -> Iterator[KeptPairs]:
        """Yields what is left of each block, read when it is asked for.

        Raises ValueError at the end if that is nothing.
        """
        keep, num_kept, reasons = KeepPairs(self.config, self.held_out), 0, Counter[str]()
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
