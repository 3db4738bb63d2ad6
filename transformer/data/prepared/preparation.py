"""Prepares a corpus in parts, and puts them together.

Any number of processes and machines may prepare the same corpus at once: a part has the same bytes
whoever writes it, and appears as a whole.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from etils import epath

from transformer import storage
from transformer.console import phase, say
from transformer.data.cleaning import KeepPairs, no_pair_error
from transformer.data.prepared import key
from transformer.data.prepared.assemble import assemble
from transformer.data.prepared.cache import make_private
from transformer.data.prepared.corpus import (
    HEADER,
    DamagedCorpusError,
    PreparedCorpus,
    open_corpus,
)
from transformer.data.prepared.parts import (
    DamagedPartError,
    PartFacts,
    WritePart,
    finished_parts,
    part_path,
    total_left_out,
)
from transformer.data.tokenizer import Tokenizer
from transformer.data.training_text import TrainingText
from transformer.folders import remove_folder
from transformer.reading import PassingError

PATIENCE = 60.0  # seconds without a new part of the others, after which a process does theirs
PATIENCE_PER_PART = 2.0  # more seconds until the first host has put them together
LOOK_EVERY = 0.2  # seconds between two looks at what others have done


class Share(NamedTuple):
    """Which parts this process prepares: those whose number leaves `index` when divided by `count`.

    waits: whether it waits for the other parts, which other hosts of the same run prepare.
    """

    index: int = 0
    count: int = 1
    waits: bool = True


def open_or_discard(folder: epath.Path) -> PreparedCorpus | None:
    """Opens a prepared corpus; one that is damaged is said to be, and prepared anew.

    Raises PassingError for one that cannot be read at the moment, or not copied from gs://.
    """
    try:
        return open_corpus(folder)
    except DamagedCorpusError as damage:
        say(f"{damage}; it is prepared anew from the text")
        with suppress(OSError):  # a folder that cannot be written is reported later
            (folder / HEADER).unlink(missing_ok=True)
        return None
    except OSError as error:
        raise PassingError(
            f"The prepared corpus {folder} cannot be opened ({error.strerror or error}): try "
            f"again, or name another folder with --config.data.cache."
        ) from None


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
        self.folder, self.parts = folder, folder / "parts"
        self.text, self.made_of, self.share = text, made_of, share
        files = tuple((tokenizer.suffix, tokenizer.to_bytes()) for tokenizer in tokenizers)
        keep = KeepPairs(text.config, text.held_out, text.evaluation)
        self.write_part = WritePart(keep, files, str(self.parts))
        self._tokenizers = tokenizers

    def run(self) -> PreparedCorpus | None:
        """Returns the corpus when all parts are there; None if others have parts left to write."""
        try:
            with ExitStack() as stack:
                make_private(self.folder.parent, self.folder.name, "parts")
                corpus = self._wait_for_lock(stack)
                while corpus is None:
                    num_parts = self._write_parts()
                    if num_parts is None:
                        return None
                    corpus = self._put_together(num_parts)
                self._remove_parts()
                return corpus
        except PassingError:  # the parts that are missing are written by the next start
            if (self.folder / HEADER).exists():  # none is missing
                self._remove_parts()
            raise
        except ValueError:  # the text is wrong: once it is mended, these parts are of no use
            self._remove_parts()
            raise
        except OSError as error:
            if (corpus := open_or_discard(self.folder)) is not None:  # others were sooner
                return corpus
            self._remove_parts()
            raise ValueError(
                f"The prepared corpus cannot be written to {self.folder} "
                f"({error.strerror or error}); nothing is left of it there. Name another folder "
                f"with --config.data.cache."
            ) from None

    def _wait_for_lock(self, stack: ExitStack) -> PreparedCorpus | None:
        """Waits while another process prepares the same parts; returns the corpus if it is ready.

        There are no locks on gs://, where the same work is then done twice.
        """
        if storage.is_remote(self.parts):
            return None
        name = f"lock-{self.share.index}-of-{self.share.count}"
        said = False
        while True:
            make_private(self.folder.parent, self.folder.name, "parts")
            with suppress(FileNotFoundError):  # the other one has just ended
                file, owner = storage.try_lock(self.parts / name)
                if file is not None:
                    stack.enter_context(file)
                    return open_or_discard(self.folder)
                if not said:
                    say(f"waiting for {owner}, which prepares the same corpus in {self.folder}")
                    said = True
            time.sleep(LOOK_EVERY)

    def _write_parts(self) -> int | None:
        """Writes the parts of this process's share and sees to the others; None if some are left.

        Returns the number of parts.
        """
        index, count, waits = self.share
        done = finished_parts(self.parts)
        self._write(lambda number: number % count == index and number not in done, count)
        num_parts = self.text.num_blocks
        everything = set(range(num_parts))
        if everything - finished_parts(self.parts) and not waits:
            return None
        missing = self._wait_for_others(everything)
        if missing:
            self._write(lambda number: number in missing, 1)
        return num_parts

    def _write(self, is_wanted: Callable[[int], bool], one_in: int) -> None:
        blocks = self.text.each(
            self.write_part, "preparing the corpus", lambda block: is_wanted(block.number), one_in
        )
        for _ in blocks:
            pass

    def _wait_for_others(self, parts: set[int]) -> set[int]:
        """Waits as long as others write parts; returns those that are missing nevertheless."""
        missing, last_change = parts - finished_parts(self.parts), time.monotonic()
        with phase("waiting for the other hosts' parts", len(parts)) as this:
            while missing and time.monotonic() - last_change < PATIENCE:
                this.num_done = len(parts) - len(missing)
                time.sleep(LOOK_EVERY)
                if (self.folder / HEADER).exists():
                    return set()
                left = parts - finished_parts(self.parts)
                if left != missing:
                    missing, last_change = left, time.monotonic()
        return missing

    def _put_together(self, num_parts: int) -> PreparedCorpus | None:
        """Returns the corpus of all parts; None if one of them was damaged and has to be redone."""
        if self.share.index and self.share.waits:
            with phase("waiting for the first host, which puts the parts together"):
                end = time.monotonic() + PATIENCE + PATIENCE_PER_PART * num_parts
                while not (self.folder / HEADER).exists() and time.monotonic() < end:
                    time.sleep(LOOK_EVERY)
            if (corpus := open_or_discard(self.folder)) is not None:
                return corpus
        try:
            assemble(
                self.folder,
                self.parts,
                num_parts,
                self.text,
                self.made_of,
                self._check,
                lambda side, ids: self._tokenizers[side].decode(ids),
            )
        except DamagedPartError as damaged:
            say(f"part {damaged.args[0]} of {self.folder} was altered; it is prepared anew")
            part_path(self.parts, damaged.args[0]).unlink(missing_ok=True)
            return None
        return open_or_discard(self.folder)

    def _check(self, parts: list[PartFacts]) -> None:
        """Raises ValueError if no pair is left to train on."""
        data = self.text.config
        num_kept = sum(part.num_pairs for part in parts)
        unfit = sum((Counter(part.unfit) for part in parts), Counter[str]())
        if not num_kept and not unfit:
            raise no_pair_error(data, total_left_out(parts))
        if not num_kept:
            raise ValueError(
                f"No pair is left of {unfit.total()} ({dict(unfit)}); raise data.row_length or "
                f"data.max_length_ratio."
            )

    def _remove_parts(self) -> None:
        """Removes the parts, and the folder if it is empty then."""
        if storage.is_remote(self.parts):
            self.parts.rmtree(missing_ok=True)
            return
        remove_folder(self.parts)
        for folder in (self.folder, self.folder.parent):
            with suppress(OSError):  # there is something in it
                os.rmdir(folder)
