"""Reads the text of a run: its training split, a block at a time, and the splits of its evaluation.

A corpus is `embedded`, a folder with files for each split, a file or a pattern of their names (see
`find_files`), or `tfds:NAME` for any TFDS dataset with a `Translation` feature. The training text
is all corpora one after another, without the pairs that are left out, and is never held as a whole.
"""

import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib import resources
from itertools import islice
from typing import TypeVar

from etils import epath

from transformer.config import DataConfig
from transformer.console import phase, say
from transformer.data.corpora.blocks import Block, Pair, Pairs, blocks_of_files, blocks_of_pairs
from transformer.data.corpora.cleaning import KeepPairs, KeptPairs, make_is_wrong, no_pair_error
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.find_files import find_pair_files
from transformer.data.corpora.held_out import (
    EvaluationSets,
    HeldOut,
    held_out_intervals,
    held_out_pairs,
)
from transformer.data.files.splits import parse_split, part_of
from transformer.data.files.text import Repairs, read_text
from transformer.data.workers import in_order, num_cores

SMALL_TEXT = 2**22  # bytes of files that are not worth the start of other processes
IN_MEMORY = 2**28  # bytes of files that are kept in memory rather than read again
EMBEDDED = epath.Path(str(resources.files("transformer"))) / "embedded" / "en-de.tsv.xz"
EMBEDDED_COLUMNS = {"en": 1, "de": 2}
Result = TypeVar("Result")


def choose_held_out(config: DataConfig, block: Block) -> Pairs:
    """Returns the pairs of a block whose source is held out."""
    return HeldOut((), config).choose(block.decode()[0])


class TrainingText:
    """The training split of every corpus of `config`.

    Making one raises ValueError if a corpus has no files or it is not known how its languages are
    written, where that matters; its methods raise it if a corpus cannot be read.
    """

    def __init__(self, config: DataConfig, blocks: Sequence[Block] = ()) -> None:
        """Takes the settings; blocks: the text, if it is in memory already."""
        self.config, self.blocks = config, blocks
        self.corpora = parse_corpora(config.corpus)
        split = config.train_split
        # The files of each corpus.
        self.files = [files_of(corpus.name, split, config) for corpus in self.corpora]
        if config.drop_wrong_script:
            for language in (config.source_language, config.target_language):
                make_is_wrong(language)
        self.num_blocks = 0  # in all, once they were read

    def keep_in_memory(self) -> None:
        """Reads the text now, for all its later passes, unless that takes too much memory."""
        if sum(self._sizes) <= IN_MEMORY:
            self.blocks = list(self._blocks())

    @cached_property
    def held_out(self) -> Pairs:
        """The pairs of the first corpus whose source is held out; the text is read for them."""
        if not self.config.held_out:
            return []
        choose, name = partial(choose_held_out, self.config), "finding the held-out pairs"
        chosen = self.each(choose, name, lambda block: block.corpus == 0)
        return [pair for pairs in chosen for pair in pairs]

    @cached_property
    def evaluation_pairs(self) -> dict[str, Pairs]:
        """The validation and the test split, unless they are held out of this text."""
        splits = dict.fromkeys((self.config.validation_split, self.config.test_split))
        intervals = held_out_intervals(self.config)
        return {s: load_evaluation_pairs(self.config, s) for s in splits if s not in intervals}

    def all_evaluation_pairs(self, held_out: Pairs) -> dict[str, Pairs]:
        """Returns both splits. held_out: the pairs that `held_out` has."""
        splits = {self.config.validation_split, self.config.test_split}
        return self.evaluation_pairs | {
            split: load_evaluation_pairs(self.config, split, held_out)
            for split in splits - self.evaluation_pairs.keys()
        }

    @cached_property
    def evaluation(self) -> EvaluationSets:
        """The sentences of these splits; one that is held out has none that is in this text."""
        without_tag = self.corpora[0].take_tag_off
        splits = {
            split: [(without_tag(source), target) for source, target in pairs]
            for split, pairs in self.evaluation_pairs.items()
        }
        return EvaluationSets(splits, on_any_side=any(corpus.tag for corpus in self.corpora))

    def kept(self, held_out: Pairs | None = None) -> Iterator[KeptPairs]:
        """Yields what is left of each block, read when it is asked for.

        held_out: the pairs whose targets are left out, too; None: all that are held out. Raises
        ValueError at the end if nothing is left.
        """
        # Without drop_overlap the evaluation sets, which may not be there, are not asked for.
        evaluation = self.evaluation if self.config.drop_overlap else EvaluationSets({})
        keep = KeepPairs(self.config, self.held_out if held_out is None else held_out, evaluation)
        num_kept, repairs, left_out = 0, Repairs(), Counter[str]()
        for kept in map(keep, self._blocks()):
            num_kept += len(kept.pairs)
            repairs.add(kept.repairs)
            left_out.update(kept.left_out)
            yield kept
        if not num_kept:
            raise no_pair_error(self.config, repairs.named() + left_out)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yields the pairs that may be trained on, one after another."""
        for kept in self.kept():
            yield from kept.pairs

    def sample(self, most: int) -> Pairs:
        """Returns all pairs, or of more than `most` every 2nd, 4th, 8th …, so that as many suffice.

        They are from all of the text, as corpora stand one after another. The held-out pairs are
        found on the way.
        """
        is_known = "held_out" in self.__dict__
        sample, held_out, stride, num_seen = list[Pair](), list[Pair](), 1, 0
        for kept in self.kept(None if is_known else []):
            sample += islice(kept.pairs, -num_seen % stride, None, stride)
            num_seen += len(kept.pairs)
            held_out += kept.held_out
            while len(sample) > most:
                sample, stride = sample[::2], 2 * stride
        if stride > 1:
            say(f"the vocabulary is learnt from {len(sample):,} of {num_seen:,} pairs")
        if is_known or not self.config.held_out:
            return sample
        self.held_out = held_out
        rules = HeldOut(held_out, self.config)  # some targets of the sample are held out, too
        return [
            pair for pair in sample if not rules.reason_to_skip(self._text_of(pair[0]), pair[1])
        ]

    def _text_of(self, source: str) -> str:
        """Returns a source of any of the corpora without its tag."""
        tagged = (c for c in self.corpora if c.tag and source.startswith(f"{c.tag} "))
        corpus = next(tagged, None)
        return corpus.take_tag_off(source) if corpus else source

    def each(
        self,
        function: Callable[[Block], Result],
        name: str,
        is_wanted: Callable[[Block], bool],
        one_in: int = 1,
    ) -> Iterator[Result]:
        """Yields function(block) of the blocks that are wanted, in order, from worker processes.

        name: of the phase that shows how many pairs are done, and how many a second.
        one_in: of how many blocks about one is wanted, for the time that is left.
        """
        sizes = deque[int]()  # of the blocks at work

        def wanted() -> Iterator[Block]:
            num_read = 0
            for block in self._blocks():
                num_read += block.num_pairs
                if is_wanted(block):
                    sizes.append(block.num_pairs)
                    if share := self._share_read(block):
                        num_left = num_read * (1 / share - 1) / one_in
                        this.total = this.num_done + sum(sizes) + round(num_left)
                    yield block

        num_workers = self.config.prepare_workers or num_cores()
        if sum(self._sizes) < SMALL_TEXT:
            num_workers = 1
        with phase(name) as this:
            this.unit = "pairs"
            for result in in_order(function, wanted(), num_workers):
                yield result
                this.advance(sizes.popleft())

    def _blocks(self) -> Iterator[Block]:
        self.num_blocks = 0
        for block in self.blocks or self._read_blocks():
            self.num_blocks += 1
            yield block

    def _read_blocks(self) -> Iterator[Block]:
        number = 0
        for index, corpus in enumerate(self.corpora):
            for block in read_blocks(corpus.name, self.config.train_split, self.config):
                block.number, block.corpus = number, index
                number += 1
                yield block

    def _share_read(self, block: Block) -> float:
        """Returns how much of the text has been read behind a block, by the size of its files."""
        before, here = sum(self._sizes[: block.corpus]), self._sizes[block.corpus]
        return (before + block.share_read * here) / max(sum(self._sizes), 1)

    @cached_property
    def _sizes(self) -> list[int]:
        """The bytes of each corpus."""
        return [sum(file.stat().length for file in paths) for paths in self.files]


# ---- one split of one corpus


def read_blocks(name: str, split: str, config: DataConfig) -> Iterator[Block]:
    """Yields the pairs of one split of one corpus; raises ValueError if it cannot be read."""
    source, target = config.source_language, config.target_language
    part = parse_split(split)
    if name.startswith("tfds:"):
        from transformer.data.tfds import read_translations

        number, pairs = read_translations(name.removeprefix("tfds:"), split, source, target)
        blocks = blocks_of_pairs(name, pairs, number)
    elif name == "embedded":
        pairs = part_of(_load_embedded(part.name, source, target), part.start, part.stop)
        blocks = blocks_of_pairs(name, pairs, len(pairs))
    else:
        files = find_pair_files(name, part.name, source, target)
        blocks = blocks_of_files(files, part, source, target)
    for block in blocks:
        block.noise = config.source_noise
        yield block


def files_of(name: str, split: str, config: DataConfig) -> list[epath.Path]:
    """Returns the files that a split of a corpus is read from; raises ValueError if it has none."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import files_of_dataset

        return files_of_dataset(name.removeprefix("tfds:"))
    if name == "embedded":
        _check_embedded(source, target)
        return [EMBEDDED]
    found = find_pair_files(name, parse_split(split).name, source, target)
    return [file for files in found for file in files.files]


def load_evaluation_pairs(config: DataConfig, split: str, held_out: Pairs | None = None) -> Pairs:
    """Returns all pairs of `split` of the first corpus: a score counts every sentence.

    The sources begin with the corpus's tag, if it has one. A split that `config.held_out` names is
    a part of the training text, which is read for it unless the pairs that are held out of it are
    given. Warns of repaired lines. Raises ValueError if it cannot be read or is empty.
    """
    corpus, interval = parse_corpora(config.corpus)[0], held_out_intervals(config).get(split)
    all_repairs = Repairs()

    def decoded() -> Iterator[Pair]:
        for block in read_blocks(corpus.name, config.train_split if interval else split, config):
            pairs, repairs = block.decode()
            all_repairs.add(repairs)
            yield from pairs

    pairs = decoded() if held_out is None or not interval else held_out
    pairs = held_out_pairs(pairs, interval) if interval else list(pairs)
    for repair in all_repairs.named():
        warnings.warn(repair, stacklevel=2)
    if not pairs:
        raise ValueError(
            f"The split '{split}' of {config.corpus} is empty: nothing to evaluate on."
        )
    return [(corpus.put_tag_on(source), target) for source, target in pairs]


# ---- the embedded corpus, in either direction


def _check_embedded(source: str, target: str) -> None:
    """Raises ValueError unless these are its languages."""
    if {source, target} != EMBEDDED_COLUMNS.keys():
        raise ValueError(
            f"The embedded corpus has no {source}-{target}; it is en-de (either way). Set "
            f"data.source_language and data.target_language, or name another data.corpus."
        )


def _load_embedded(split: str, source: str, target: str) -> Pairs:
    """Returns the pairs of a split; raises ValueError if there is no such one."""
    _check_embedded(source, target)
    rows = [line.split("\t") for line in read_text(EMBEDDED).lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if split not in splits:
        raise ValueError(f"The embedded corpus has the splits {', '.join(splits)}, not '{split}'.")
    first, second = EMBEDDED_COLUMNS[source], EMBEDDED_COLUMNS[target]
    return [(row[first], row[second]) for row in rows if row[0] == split]
