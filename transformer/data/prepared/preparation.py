"""Prepares a corpus: writes its parts, and the header when all of them are there.

Any number of processes and machines may prepare the same corpus at once: each of its files has the
same bytes whoever writes it, and appears as a whole.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from etils import epath

from transformer.console import phase, say
from transformer.data.cleaning import KeepPairs
from transformer.data.prepared import key
from transformer.data.prepared.arrow_files import DamagedFileError
from transformer.data.prepared.cache import make_private
from transformer.data.prepared.corpus import HEADER, PreparedCorpus, open_corpus
from transformer.data.prepared.header import write_header
from transformer.data.prepared.parts import WritePart
from transformer.data.tokenizer import Tokenizer
from transformer.data.training_text import TrainingText
from transformer.files.parts import Parts
from transformer.reading import PassingError

PATIENCE = 60.0  # seconds without a new part of the others, after which a process does theirs


class Share(NamedTuple):
    """Which parts this process prepares: those whose number leaves `index` when divided by `count`.

    waits: whether it waits for the other parts, which other hosts of the same run prepare.
    """

    index: int = 0
    count: int = 1
    waits: bool = True


def open_or_discard(folder: epath.Path) -> PreparedCorpus | None:
    """Opens a prepared corpus; a file that is damaged is said to be, and prepared anew.

    Raises PassingError for a corpus that cannot be read at the moment, or not copied from gs://.
    """
    try:
        return open_corpus(folder)
    except DamagedFileError as damage:
        _discard(folder, damage)
        return None
    except OSError as error:
        raise PassingError(
            f"The prepared corpus {folder} cannot be opened ({error.strerror or error}): try "
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
        made_of: key.Facts,
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
        except PassingError:  # the parts that are missing are written by the next start
            raise
        except ValueError:  # the text is wrong: once it is mended, these parts are of no use
            self._remove()
            raise
        except OSError as error:
            if (corpus := open_or_discard(self.folder)) is not None:  # others were sooner
                return corpus
            self._remove()
            raise ValueError(
                f"The prepared corpus cannot be written to {self.folder} "
                f"({error.strerror or error}); nothing is left of it there. Name another folder "
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
        with phase("waiting for the other hosts' parts", len(everything)) as this:

            def show(number: int) -> None:
                this.num_done = number

            missing = self.parts.wait_for(everything, PATIENCE, show)
        if missing:
            self._write_missing()
        return len(everything)

    def _write_missing(self, count: int = 1, index: int = 0) -> None:
        """Writes the parts that are missing, of those whose number leaves `index`."""
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

    def _remove(self) -> None:
        """Removes the folder, and the one that it is in if that is empty then."""
        self.parts.remove()
        with suppress(OSError):  # there is something in it
            os.rmdir(self.folder.parent)
