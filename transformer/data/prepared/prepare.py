"""Opens the prepared corpus of a run's text, settings and vocabularies, made if need be.

Any number of processes and machines may prepare the same corpus at once: each of its files has the
same bytes whoever writes it, and appears as a whole.
"""

import json
import os
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from etils import epath

from transformer.config import Config
from transformer.console import format_seconds, say
from transformer.data.corpora.blocks import PAIRS_OF_BLOCK
from transformer.data.corpora.cleaning import KeepPairs
from transformer.data.corpora.corpora import Tags
from transformer.data.corpora.held_out import HELD_OUT, read_held_out
from transformer.data.corpora.training_text import TrainingText
from transformer.data.prepared.cache import (
    Facts,
    corpus_recipe,
    entry_name,
    make_private,
    say_if_changed,
    text_facts,
    vocabulary_recipe,
)
from transformer.data.prepared.corpus import HEADER, DamagedFileError, PreparedCorpus, open_corpus
from transformer.data.prepared.parts import WritePart, write_header
from transformer.data.tokenizers.files import (
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files import storage
from transformer.files.parts import Parts
from transformer.files.reading import TransientError, reason_of

PATIENCE = 60.0  # seconds without a new part of the others, after which a process does theirs
MOST_PAIRS = 2_000_000  # that a vocabulary is learnt from


class Share(NamedTuple):
    """Which parts this process prepares: those with number % count == index.

    waits: whether it waits for the other parts, which other hosts of the same run prepare.
    """

    index: int = 0
    count: int = 1
    waits: bool = True


def training_corpus(
    config: Config,
    text: TrainingText,
    cache: epath.Path,
    tokenizers: tuple[Tokenizer, Tokenizer] | None,
    share: Share,
) -> tuple[tuple[Tokenizer, Tokenizer], PreparedCorpus | None]:
    """Returns (tokenizers, prepared corpus) of a run; None if others have parts left to prepare.

    cache: the folder of prepared corpora. tokenizers: those of the run; None: they are learnt from
    the text, unless `cache` has them. Raises ValueError if no pair is left of the text, or the
    folder cannot be written; nothing is left there then. What a TransientError ends goes on from
    there at the next start.
    """
    facts, is_new = text_facts(text), tokenizers is None
    folder = vocabulary_folder(config, cache, facts)
    was_learnt = folder.exists()
    try:
        if tokenizers is None and config.tokenizer.model:
            tokenizers = train_tokenizers(config.tokenizer, [])
        elif tokenizers is None:
            tokenizers = vocabularies(config, text, folder)
        Tags(config.data).check(tokenizers[0])
        return tokenizers, _open_or_prepare(text, cache, tokenizers, facts, share, is_new=is_new)
    except TransientError:
        raise
    except ValueError:
        if is_new and not was_learnt and not storage.is_remote(folder):
            _remove(folder)
        raise


def _open_or_prepare(
    text: TrainingText,
    cache: epath.Path,
    tokenizers: Sequence[Tokenizer],
    facts: list[Facts],
    share: Share,
    *,
    is_new: bool,
) -> PreparedCorpus | None:
    """Returns the corpus. facts: of the text. is_new: whether the vocabularies are those of now."""
    recipe = corpus_recipe(text.config, tokenizers)
    folder = cache / entry_name("corpus", recipe, facts)
    corpus, how = open_or_discard(folder), "was prepared before"
    if corpus is None:
        if not is_new:
            say_if_changed(folder)
        start = time.monotonic()
        made_of = {"recipe": recipe, "text": facts}
        corpus = Preparation(folder, text, tokenizers, made_of, share).run()
        how = f"prepared in {format_seconds(time.monotonic() - start)}"
    if corpus is not None and len(corpus.source) > PAIRS_OF_BLOCK:
        sides, pairs = (corpus.source, corpus.target), len(corpus.source)
        tokens = sum(int(side.lengths.sum(dtype=np.int64)) for side in sides)
        say(f"corpus of {pairs:,} pairs, {tokens:,} tokens, {how}: {folder}")
    return corpus


def open_or_discard(folder: epath.Path) -> PreparedCorpus | None:
    """Opens a prepared corpus; a file that is damaged is said to be, and prepared anew.

    Raises TransientError for a corpus that cannot be read at the moment, or not copied from gs://.
    """
    try:
        return open_corpus(folder)
    except DamagedFileError as damage:
        _discard(folder, damage)
        return None
    except OSError as error:
        raise TransientError(
            f"The prepared corpus {folder} cannot be opened ({reason_of(error)}): try "
            f"again, or name another folder with --config.data.cache."
        ) from None


def _discard(folder: epath.Path, damage: DamagedFileError) -> None:
    file = damage.args[0]
    say(f"{folder / file.name} is missing or damaged; it is prepared anew from the text")
    with suppress(OSError):  # a folder that cannot be written is reported later
        for path in (folder / file.name, folder / HEADER, file):
            path.unlink(missing_ok=True)


class Preparation:
    """The preparation of a corpus in `folder`, by this process and perhaps others."""

    def __init__(
        self,
        folder: epath.Path,
        text: TrainingText,
        tokenizers: Sequence[Tokenizer],
        made_of: Facts,
        share: Share,
    ) -> None:
        self.folder, self.parts = folder, Parts(folder)
        self.text, self.made_of, self.share = text, made_of, share
        files = tuple((tokenizer.suffix, tokenizer.to_bytes()) for tokenizer in tokenizers)
        keep = KeepPairs(text.config, text.held_out, text.evaluation)
        self.write_part = WritePart(keep, files, str(folder))
        self._tokenizers = tokenizers

    def run(self) -> PreparedCorpus | None:
        """Returns the corpus when all parts are there; None if others have parts left to write."""
        try:
            make_private(self.folder.parent, self.folder.name)
            corpus = None
            while corpus is None:
                if (num_parts := self._write_parts()) is None:
                    return None
                corpus = self._finish(num_parts)
            return corpus
        except TransientError:  # the parts that are missing are written by the next start
            raise
        except ValueError:  # the text is wrong: once it is mended, these parts are of no use
            _remove(self.folder)
            raise
        except OSError as error:
            if (corpus := open_or_discard(self.folder)) is not None:  # others were sooner
                return corpus
            _remove(self.folder)
            raise ValueError(
                f"The prepared corpus cannot be written to {self.folder} "
                f"({reason_of(error)}); nothing is left of it there. Name another folder "
                f"with --config.data.cache."
            ) from None

    def _write_parts(self) -> int | None:
        """Writes the parts of this process's share and sees to the others; None if some are left.

        Returns the number of parts.
        """
        index, count, waits = self.share
        self._write_missing(count, index)
        everything = set(range(self.text.num_blocks))
        if everything - self.parts.finished().keys() and not waits:
            return None
        if self.parts.wait_for(everything, PATIENCE, "waiting for the other hosts' parts"):
            self._write_missing()
        return len(everything)

    def _write_missing(self, count: int = 1, index: int = 0) -> None:
        """Writes the parts that are missing, of those with number % count == index."""
        done = self.parts.finished()
        blocks = self.text.each(
            self.write_part,
            "preparing the corpus",
            lambda block: block.number % count == index and block.number not in done,
            count,
        )
        for _ in blocks:
            pass

    def _finish(self, num_parts: int) -> PreparedCorpus | None:
        """Writes all files but the parts, the header last; None if a part has to be redone."""
        try:
            write_header(self.folder, num_parts, self.text, self.made_of, self._tokenizers)
        except DamagedFileError as damage:
            _discard(self.folder, damage)
            return None
        self.parts.remove_unfinished()
        return open_or_discard(self.folder)


def _remove(folder: epath.Path) -> None:
    """Removes a folder of the cache, and the cache if that is empty then."""
    Parts(folder).remove()
    with suppress(OSError):  # there is something in it
        os.rmdir(folder.parent)


def vocabulary_folder(config: Config, cache: epath.Path, facts: list[Facts]) -> epath.Path:
    """Returns the folder of the vocabularies that a new run learns. facts: of its text."""
    return cache / entry_name("vocabulary", vocabulary_recipe(config), facts)


def vocabularies(
    config: Config, text: TrainingText, folder: epath.Path
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of a new run: those kept in `folder`, or learnt now.

    The held-out pairs are kept beside them, and written last: with them the folder is complete.
    Raises ValueError if the text allows no such vocabulary, or they cannot be read or written.
    """
    if (held_out := read_held_out(folder)) is not None:
        text.held_out = held_out
        try:
            return load_tokenizers(folder)
        except TransientError:
            raise
        except ValueError as error:
            raise ValueError(f"{error} Without {folder} the vocabulary is learnt again.") from None
    say_if_changed(folder)
    sample = text.sample(MOST_PAIRS)
    tokenizers = train_tokenizers(config.tokenizer, sample, Tags(config.data).all)
    try:
        make_private(folder.parent, folder.name)
        writer = f".{uuid.uuid4().hex}"  # other hosts may write the same files at once
        save_tokenizers(folder, *tokenizers, writer)
        storage.write_atomically(folder / HELD_OUT, json.dumps(text.held_out), writer)
    except OSError as error:
        raise ValueError(
            f"The vocabulary cannot be written to {folder} ({reason_of(error)}). Name another "
            f"folder with --config.data.cache."
        ) from None
    return tokenizers
