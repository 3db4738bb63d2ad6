"""Reads the text of a run: its training split, a block at a time, and the splits of its evaluation.

A corpus is `embedded`, a folder with files for each split, a file or a pattern of their names (see
`find_pair_files`), or `tfds:NAME` for any TFDS dataset with a `Translation` feature. The training
text is all corpora one after another, without the pairs that are left out. Only a small one is held
as a whole, while settings are chosen for it.
"""

import unicodedata
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib import resources
from itertools import count, islice
from typing import TypeVar

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.console import phase, say
from transformer.data.corpora.cleaning import (
    HELD_OUT_SOURCE,
    EvaluationSets,
    HeldOut,
    KeepPairs,
    KeptPairs,
    held_out_intervals,
    held_out_pairs,
    no_pair_error,
)
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.languages import make_is_wrong
from transformer.data.corpora.pair_files import (
    Block,
    Pair,
    Pairs,
    blocks_of_files,
    blocks_of_pairs,
    find_pair_files,
    part_of_blocks,
)
from transformer.data.files.text import Repairs, parse_split, read_text
from transformer.data.workers import in_order, num_cores

SMALL_TEXT = 2**22  # bytes of files that are not worth the start of other processes
IN_MEMORY = 2**28  # bytes of files that are kept in memory rather than read again
EMBEDDED = epath.Path(str(resources.files("transformer"))) / "embedded" / "en-de.tsv.xz"
EMBEDDED_COLUMNS = {"en": 1, "de": 2}
LETTERS_PER_ERROR = 12  # of `misspell`: about one word in three, in English
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
        """Opens the text of these settings; blocks: the text, if it is in memory already."""
        self.config, self.blocks = config, blocks
        self.corpora = parse_corpora(config.corpus)
        opened = (open_split(corpus.name, config.train_split, config) for corpus in self.corpora)
        self.files = [files for files, _ in opened]  # of each corpus
        if config.drop_wrong_script:
            for language in config.languages:
                make_is_wrong(language)
        self.num_blocks = 0  # in all, once they were read
        self._evaluation_pairs = dict[str, Pairs]()

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

    def evaluation_pairs(self, held_out: Pairs | None = None) -> dict[str, Pairs]:
        """Returns the validation and the test split, read once.

        held_out: the pairs that `held_out` has; without them a split that is held out is missing.
        """
        config, intervals = self.config, held_out_intervals(self.config)
        for split in (config.validation_split, config.test_split):
            if split not in self._evaluation_pairs and (
                held_out is not None or split not in intervals
            ):
                self._evaluation_pairs[split] = load_evaluation_pairs(config, split, held_out)
        return self._evaluation_pairs

    @cached_property
    def evaluation(self) -> EvaluationSets:
        """The sentences of these splits; one that is held out has none that is in this text."""
        without_tag = self.corpora[0].take_tag_off
        splits = {
            split: [(without_tag(source), target) for source, target in pairs]
            for split, pairs in self.evaluation_pairs().items()
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
            left_out.update({reason: len(indices) for reason, indices in kept.left_out.items()})
            yield kept
        if not num_kept:
            raise no_pair_error(self.config, repairs.named() + left_out)

    def pairs(self) -> Iterator[Pair]:
        """Yields the pairs that may be trained on, one after another."""
        for kept in self.kept():
            yield from kept.pairs

    def sample(self, most: int) -> Pairs:
        """Returns all pairs, or of more than `most` every 2nd, 4th, 8th …, so that as many suffice.

        They are from all of the text, as corpora stand one after another. The held-out pairs are
        found on the way.
        """
        is_known = "held_out" in self.__dict__ or not self.config.held_out
        sample, held_out, stride, num_seen = Pairs(), Pairs(), 1, 0
        for kept in self.kept(None if is_known else []):
            sample += islice(kept.pairs, -num_seen % stride, None, stride)
            num_seen += len(kept.pairs)
            indices = () if kept.corpus else kept.left_out.get(HELD_OUT_SOURCE, ())
            held_out += [kept.decoded[index] for index in indices]
            while len(sample) > most:
                sample, stride = sample[::2], 2 * stride
        if stride > 1:
            say(f"the vocabulary is learnt from {len(sample):,} of {num_seen:,} pairs")
        if is_known:
            return sample
        self.held_out = held_out
        reason = HeldOut(held_out, self.config).reason_to_skip  # for targets that are held out, too
        tags = tuple(f"{corpus.tag} " for corpus in self.corpora if corpus.tag)
        texts = (s.partition(" ")[2] if s.startswith(tags) else s for s, _ in sample)
        return [pair for text, pair in zip(texts, sample, strict=True) if not reason(text, pair[1])]

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
            num_read = num_wanted = 0
            for block in self._blocks():
                num_read += block.num_pairs
                if is_wanted(block):
                    sizes.append(block.num_pairs)
                    num_wanted += block.num_pairs
                    before, here = sum(self._sizes[: block.corpus]), self._sizes[block.corpus]
                    if read := before + block.share_read * here:  # bytes
                        num_left = num_read * (sum(self._sizes) / read - 1)
                        this.total = num_wanted + round(num_left / one_in)
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
        numbers = count()
        for index, corpus in enumerate(self.corpora):
            for block in read_blocks(corpus.name, self.config.train_split, self.config):
                block.number, block.corpus = next(numbers), index
                yield block

    @cached_property
    def _sizes(self) -> list[int]:
        """The bytes of each corpus."""
        return [sum(file.stat().length for file in paths) for paths in self.files]


# ---- one split of one corpus


def open_split(
    name: str, split: str, config: DataConfig
) -> tuple[list[epath.Path], Iterator[Block]]:
    """Returns (the files of a split of a corpus, its pairs, read when they are asked for).

    Raises ValueError if it has none.
    """
    source, target = config.languages
    if name.startswith("tfds:"):
        from transformer.data.tfds import files_of_dataset, read_translations

        dataset = name.removeprefix("tfds:")
        pairs = read_translations(dataset, split, source, target)
        return files_of_dataset(dataset), blocks_of_pairs(name, pairs)
    part = parse_split(split)
    if name == "embedded":
        if {source, target} != EMBEDDED_COLUMNS.keys():
            raise ValueError(
                f"The embedded corpus has no {source}-{target}; it is en-de (either way). Set "
                f"data.source_language and data.target_language, or name another data.corpus."
            )
        files, read = [EMBEDDED], partial(_read_embedded, part.name, source, target)
    else:
        found = find_pair_files(name, part.name, source, target)
        files = [file for _, files in found for file in files]
        read = partial(blocks_of_files, found, source, target)
    return files, part_of_blocks(read, part)


def _read_embedded(split: str, source: str, target: str) -> Iterator[Block]:
    rows = [line.split("\t") for line in read_text(EMBEDDED).lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if split not in splits:
        raise ValueError(f"The embedded corpus has the splits {', '.join(splits)}, not '{split}'.")
    columns = EMBEDDED_COLUMNS[source], EMBEDDED_COLUMNS[target]
    pairs = ((row[columns[0]], row[columns[1]]) for row in rows if row[0] == split)
    return blocks_of_pairs("embedded", pairs)


def read_blocks(name: str, split: str, config: DataConfig) -> Iterator[Block]:
    """Yields the pairs of one split of one corpus; raises ValueError if it cannot be read."""
    for block in open_split(name, split, config)[1]:
        block.noise = NOISES.get(config.source_noise)
        yield block


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


# ---- errors in sources, from which a model learns spelling correction


def misspell(text: str) -> str:
    """Returns the text with an error for about every twelfth letter.

    An error exchanges a letter with the next one of its word (the last one is left out instead),
    leaves it out, doubles it, or replaces it by another one of the text: "the house" becomes
    "hte house", "th house", "thee house" or "uhe house". The errors depend on the text alone: a
    test set is the same for every run, and a prepared corpus for every host.
    """
    rng = np.random.default_rng(np.frombuffer(text.encode(errors="replace"), np.uint8))
    alphabet = [letter for letter in text if letter.isalpha()]
    letters, damaged = list(reversed(text)), []  # the next one last: taking it costs the same
    while letters:
        letter = letters.pop()
        if not letter.isalpha() or rng.integers(LETTERS_PER_ERROR):
            damaged.append(letter)
            continue
        match rng.integers(4):
            case 0 if letters and letters[-1].isalpha():
                damaged += [letters.pop(), letter]
            case 1:
                damaged += [letter, letter]
            case 2:
                damaged.append(alphabet[rng.integers(len(alphabet))])
    return "".join(damaged)


def remove_accents(text: str) -> str:
    """Returns the text without the marks on its letters: "Müßig am Café" -> "Mußig am Cafe"."""
    letters = unicodedata.normalize("NFD", text)
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare)


NOISES: dict[str, Callable[[str], str]] = {"misspell": misspell, "remove_accents": remove_accents}
