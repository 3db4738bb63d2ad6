"""Reads the text of a run: its training split, a block at a time, and the splits of its evaluation.

A corpus is `embedded`, a folder with files for each split, a file or a pattern of their names (see
`find_pair_files`), or `tfds:NAME` for any TFDS dataset with a `Translation` feature. The training
text is all corpora one after another, without the pairs that are left out.
"""

import hashlib
import os
import unicodedata
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from importlib import resources
from itertools import chain, count, takewhile
from operator import itemgetter
from typing import Any, TypeVar, cast

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.console import phase
from transformer.data.corpora.cleaning import (
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
    blocks_of_pairs,
    find_pair_files,
    num_bytes,
    read_files,
)
from transformer.data.files.text import Repairs, Split, parse_split, part_of, read_text
from transformer.data.workers import in_order, num_cores
from transformer.files import storage
from transformer.files.reading import unreadable

SMALL_TEXT = 2**22  # bytes of files that are not worth the start of other processes
IN_MEMORY = 2**28  # bytes of files that are kept in memory until they are prepared
EMBEDDED = epath.Path(str(resources.files("transformer"))) / "embedded" / "en-de.tsv.xz"
EMBEDDED_COLUMNS = {"en": 1, "de": 2}
LETTERS_PER_ERROR = 12  # of `misspell`: about one word in three, in English
Result = TypeVar("Result")
_kept = dict[Any, list[Block]]()  # of small corpora, by all that their blocks depend on


class TrainingText:
    """The training split of every corpus of `config`.

    Making one raises ValueError if a corpus has no files or, where that matters, it is not known
    how its languages are written; its methods raise it if a corpus cannot be read.
    """

    def __init__(self, config: DataConfig) -> None:
        self.config = config
        self.corpora = parse_corpora(config.corpus)
        opened = (open_split(corpus.name, config.train_split, config) for corpus in self.corpora)
        self.files = [files for files, _ in opened]  # of each corpus
        self._sizes = [num_bytes(files) for files in self.files]
        if config.drop_wrong_script:
            for language in config.languages:
                make_is_wrong(language)

    @cached_property
    def facts(self) -> list[dict[str, Any]]:
        """What tells whether the text has changed, of each of its files, as JSON can hold it.

        It is path, size and time of the last change, or with `data.cache_key=hash` size and hash.
        With `data.drop_overlap`, a hash of the evaluation sets comes last.
        """
        evaluation = [{"evaluation": self.evaluation.digest}] if self.config.drop_overlap else []
        return self._file_facts + evaluation

    @cached_property
    def _file_facts(self) -> list[dict[str, Any]]:
        by_hash = self.config.cache_key == "hash"
        return [_facts_of(file, by_hash=by_hash) for files in self.files for file in files]

    @cached_property
    def held_out(self) -> Pairs:
        """The pairs of the first corpus whose source is held out; it is read for them."""
        if not self.config.held_out:
            return []
        blocks = takewhile(lambda block: block.corpus == 0, self.blocks())
        choose = HeldOut((), self.config).choose
        return [*chain(*self.in_workers(choose, blocks, "finding the held-out pairs"))]

    @cached_property
    def evaluation_pairs(self) -> dict[str, Pairs]:
        """The validation and the test split, but for those that are held out of this text."""
        config, held_out = self.config, held_out_intervals(self.config)
        return {
            split: load_evaluation_pairs(config, split)
            for split in (config.validation_split, config.test_split)
            if split not in held_out
        }

    @cached_property
    def evaluation(self) -> EvaluationSets:
        """The sentences of these splits."""
        tag = f"{self.corpora[0].tag} "
        splits = {
            split: [(source.removeprefix(tag), target) for source, target in pairs]
            for split, pairs in self.evaluation_pairs.items()
        }
        return EvaluationSets(splits, on_any_side=any(corpus.tag for corpus in self.corpora))

    def kept(self) -> Iterator[KeptPairs]:
        """Yields what is left of each block, read when it is asked for.

        Raises ValueError at the end if nothing is left.
        """
        # Without drop_overlap the evaluation sets, which may not be there, are not asked for.
        evaluation = self.evaluation if self.config.drop_overlap else EvaluationSets({})
        keep = KeepPairs(self.config, self.held_out, evaluation)
        num_kept, repairs, left_out = 0, Repairs(), Counter[str]()
        for kept in map(keep, self.blocks()):
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

    def blocks(self) -> Iterator[Block]:
        """Yields all blocks, read when they are asked for; `share_read` is that of all corpora."""
        numbers, total = count(), max(1, sum(self._sizes))
        for index, corpus in enumerate(self.corpora):
            before, size = sum(self._sizes[:index]), self._sizes[index]
            name, split, config = corpus.name, self.config.train_split, self.config
            if total > IN_MEMORY:
                blocks = read_blocks(name, split, config)
            else:
                key = name, split, config.languages, config.source_noise, str(self._file_facts)
                if key not in _kept:
                    _kept[key] = [*read_blocks(name, split, config)]
                blocks = _kept[key]
            for block in blocks:
                share_read = (before + block.share_read * size) / total
                yield replace(block, number=next(numbers), corpus=index, share_read=share_read)

    def in_workers(
        self, function: Callable[[Block], Result], blocks: Iterable[Block], name: str
    ) -> Iterator[Result]:
        """Yields function(block) of some of the blocks, in order, from worker processes.

        name: of the phase that shows how many pairs are done, and how many a second.
        """
        sizes = deque[int]()  # of the blocks at work

        def started() -> Iterator[Block]:
            num_pairs = 0
            for block in blocks:
                sizes.append(block.num_pairs)
                num_pairs += block.num_pairs
                if block.share_read:
                    this.total = round(num_pairs / block.share_read)
                yield block

        num_workers = self.config.prepare_workers or num_cores()
        if sum(self._sizes) < SMALL_TEXT:
            num_workers = 1
        with phase(name) as this:
            this.unit = "pairs"
            for result in in_order(function, started(), num_workers):
                yield result
                this.advance(sizes.popleft())


def forget_texts() -> None:
    """Frees the memory of the texts that were read; they are read again if they are asked for."""
    _kept.clear()


def _facts_of(file: epath.Path, *, by_hash: bool) -> dict[str, Any]:
    try:
        if by_hash:
            with file.open("rb") as opened:
                digest = hashlib.file_digest(cast(Any, opened), "blake2b").hexdigest()
            return {"name": file.name, "bytes": file.stat().length, "blake2b": digest}
        if storage.is_remote(file):
            status = file.stat()
            return {"path": str(file), "bytes": status.length, "modified": status.mtime}
        local = os.stat(file)
        path = str(storage.absolute(file))
        return {"path": path, "bytes": local.st_size, "modified": local.st_mtime_ns}
    except OSError as error:
        raise unreadable(str(file), error) from None


# ---- one split of one corpus


def open_split(
    name: str, split: str, config: DataConfig
) -> tuple[list[epath.Path], Iterator[Block]]:
    """Returns (the files of a split of a corpus, its pairs, read when they are asked for).

    Raises ValueError if it has none.
    """
    languages = config.languages
    if name.startswith("tfds:"):
        from transformer.data.tfds import files_of_dataset, read_translations

        dataset = name.removeprefix("tfds:")
        pairs = read_translations(dataset, split, *languages)
        return files_of_dataset(dataset), blocks_of_pairs(name, pairs)
    part = parse_split(split)
    if name == "embedded":
        if {*languages} != EMBEDDED_COLUMNS.keys():
            raise ValueError(
                f"The embedded corpus has no {'-'.join(languages)}; it is en-de (either way). Set "
                f"data.source_language and data.target_language, or name another data.corpus."
            )
        return [EMBEDDED], blocks_of_pairs(name, _read_embedded(part, *languages))
    found = find_pair_files(name, part.name, *languages)
    return [file for _, files in found for file in files], read_files(found, part, languages)


def _read_embedded(part: Split, source: str, target: str) -> Iterator[Pair]:
    rows = [line.split("\t") for line in read_text(EMBEDDED).lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if part.name not in splits:
        names = ", ".join(splits)
        raise ValueError(f"The embedded corpus has the splits {names}, not '{part.name}'.")
    columns = itemgetter(EMBEDDED_COLUMNS[source], EMBEDDED_COLUMNS[target])
    pairs = [columns(row) for row in rows if row[0] == part.name]
    yield from part_of(pairs, part.start, part.stop)


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
    pairs, repairs = Pairs(), Repairs()
    if interval:
        if held_out is None:
            first = replace(config, corpus=f"{corpus.name}@1", drop_wrong_script=False)
            held_out = TrainingText(first).held_out
            forget_texts()
        pairs = held_out_pairs(held_out, interval)
    else:
        for block in read_blocks(corpus.name, split, config):
            more, repaired = block.decode()
            pairs += more
            repairs.add(repaired)
    for repair in repairs.named():
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
