"""A prepared corpus: the list of its parts, which are mapped into memory.

header.json    what it was made of, how many parts it has, how many pairs were left out, the pairs
               that are held out; it is written last: without it the folder is no prepared corpus
000000.arrow   the pairs of the first block of the text; and so on. Columns `source` and `target`
               are their ids, lists of uint16, or of uint32 where the vocabulary is larger than
               that. With data.drop_duplicates there are also hashes of each pair. What else is
               known of the part is JSON in the metadata
kept.arrow     with data.drop_duplicates, the indices of the pairs of each part that occur in no
               earlier place
left_out.tsv   some of the pairs that were left out, by reason
"""

import atexit
import ctypes
import functools
import json
import mmap
import os
import pathlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from etils import epath

from transformer.console import counted
from transformer.data.corpora.cleaning import HELD_OUT, LEFT_OUT, EvaluationSets
from transformer.data.corpora.pair_files import Pairs
from transformer.data.rows.epoch_plan import CorpusPart
from transformer.data.rows.ragged import Ragged
from transformer.files import storage
from transformer.files.parts import part_name
from transformer.files.reading import unreadable

HEADER, KEPT, ARROW = "header.json", "kept.arrow", "arrow"
SIDES = "source", "target"
INDEX, NOTES = "index", b"notes"
CHUNK = 2**24  # bytes that are copied at a time
MADVISE = ctypes.CDLL(None).madvise
MADVISE.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


# ---- a file


class DamagedFileError(Exception):
    """A file of a prepared corpus is missing or is not what was written; `args` holds its path."""


def arrow_lists(numbers: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    """Returns lists of these lengths, which stand one after another in `numbers`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, numbers)


def arrow_bytes(columns: Mapping[str, Any], notes: str = "") -> bytes:
    """Returns the content of a file with these columns, which have the same length."""
    batch = pa.record_batch(columns).replace_schema_metadata({NOTES: notes})
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, batch.schema) as writer:
        writer.write_batch(batch)
    return content.getvalue().to_pybytes()


class ArrowFile:
    """A file as of `arrow_bytes`, of which only the pages that are read come into memory."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises DamagedFileError for a file that is missing or cut short, and TransientError."""
        try:
            with pa.memory_map(os.fsencode(path)) as file:
                start = file.read_buffer(1)  # stays mapped, without an open file for each part
                self._content = pa.foreign_buffer(start.address, file.size(), start)
            with pa.ipc.open_file(self._content) as reader:
                self._batch = reader.get_batch(0)
                self.notes = reader.schema.metadata[NOTES].decode()
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            raise DamagedFileError(path) from None
        except OSError as error:
            raise unreadable(str(path), error) from None
        self.give_back()

    def lists(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns a column of lists: (numbers, where each list begins in them and the last ends).

        The lists [7, 8, 2] and [2] are the numbers 7 8 2 2 and the offsets 0 3 4.
        """
        column = self._batch.column(name)
        return column.values.to_numpy(), column.offsets.to_numpy()

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column of numbers."""
        return self._batch.column(name).to_numpy()

    def give_back(self) -> None:
        """Gives up the pages that were read; they are read again from the system's cache of files.

        The resident memory of a process would else grow to the size of the files.
        """
        MADVISE(self._content.address, self._content.size, mmap.MADV_DONTNEED)


# ---- reading


class SentencesOfParts(Ragged):
    """One side of a prepared corpus: the sentences of its parts, one after another."""

    def __init__(
        self, parts: Sequence[ArrowFile], side: str, kept: Sequence[np.ndarray] | None
    ) -> None:
        """Takes the parts and the indices of those pairs of each that it has; None: all pairs."""
        self._parts, lengths = parts, []
        # Of memoryviews, numbers and slices are taken in a third of the time that arrays need.
        self._lists: list[tuple[memoryview, memoryview]] = []
        self._kept = kept and [indices.data for indices in kept]
        for number, part in enumerate(parts):
            ids, offsets = part.lists(side)
            self._type = ids.dtype
            self._lists.append((ids.data, offsets.data))
            every = np.diff(offsets)
            every = every.astype(np.uint16 if every.max(initial=0) < 2**16 else np.int32)
            lengths.append(every[kept[number]] if kept else every)
            part.give_back()
        self.lengths = np.concatenate(lengths)
        self._firsts = np.cumsum([0, *map(len, lengths[:-1])])  # the first sentence of each part

    def gather(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = np.searchsorted(self._firsts, indices, side="right") - 1
        places = indices - self._firsts[parts]
        sentences = []
        for part, place in zip(parts.tolist(), places.tolist(), strict=True):
            ids, offsets = self._lists[part]
            if self._kept:
                place = self._kept[part][place]
            sentences.append(ids[offsets[place] : offsets[place + 1]])
        flat = np.frombuffer(b"".join(sentences), self._type)
        for part in np.unique(parts):
            self._parts[part].give_back()
        return flat, self.lengths[indices].astype(np.int64)

    def take(self, indices: np.ndarray) -> Ragged:
        return self.copy(indices)


class PreparedCorpus:
    """The training pairs of a run.

    source, target: their ids. held_out: the pairs that are held out for other splits. left_out:
    number of repaired lines and of pairs that were left out, by reason. header: as in the file.
    """

    def __init__(self, folder: pathlib.Path, header: dict[str, Any]) -> None:
        """Takes the local folder with the files; raises DamagedFileError, and TransientError."""
        self.folder, self.header = folder, header
        parts = [ArrowFile(path) for path in part_files(folder, header["num_parts"])]
        kept = None
        if header["has_repeated"]:
            indices, offsets = ArrowFile(folder / KEPT).lists(INDEX)
            kept = np.split(indices, offsets[1:-1])
        self.source, self.target = (SentencesOfParts(parts, side, kept) for side in SIDES)
        self.held_out: Pairs = [(source, target) for source, target in header["held_out"]]
        self.left_out = Counter[str](header["left_out"])

    def parts(self, weights: Sequence[float]) -> list[CorpusPart]:
        """Returns the corpora that the pairs belong to. weights: of each, in the same order."""
        return list(map(CorpusPart, self.header["pairs_of_corpora"], weights))

    def overlap_with(self, evaluation: EvaluationSets) -> str:
        """Returns what to tell the user of the sentences of these sets that are in the text.

        It is "" if there are none. They were counted when the corpus was prepared.
        """
        digest, overlap = self.header["overlap"] or ("", {})
        if digest != evaluation.digest:
            return (
                f"whether sentences of the validation and test sets are in the training text was "
                f"not counted for these sets: remove {self.folder} to have it prepared anew"
            )
        splits = [
            f"{n:,} of {total:,} pairs of {name}" for name, (n, total) in overlap.items() if n
        ]
        said = (
            f"{' and '.join(splits)} have the source or the target of a pair that is trained on; "
            f"--config.data.drop_overlap leaves such training pairs out"
        )
        return said if splits else ""

    def save_notes(self, folder: epath.Path) -> None:
        """Copies left_out.tsv and held_out.json to a folder, if there are such pairs."""
        if self.held_out:
            storage.write_atomically(folder / HELD_OUT, json.dumps(self.held_out))
        sample = self.folder / LEFT_OUT
        if sample.exists() and (content := sample.read_bytes()).count(b"\n") > 1:  # with its head
            storage.write_atomically(folder / LEFT_OUT, content)


def local_files(folder: epath.Path) -> pathlib.Path:
    """Returns a local folder with the files of one, which are copied from gs:// if need be.

    Copies are removed at the end of the process.
    """
    if not storage.is_remote(folder):
        return pathlib.Path(folder)
    local = temporary_folder(folder)
    missing = [file for file in folder.iterdir() if not (local / file.name).exists()]
    for file in counted(missing, "copying the prepared corpus", len(missing)):
        with file.open("rb") as source, storage.open_atomically(local / file.name) as copy:
            shutil.copyfileobj(source, copy, CHUNK)
    return local


@functools.cache
def temporary_folder(replaced: epath.Path) -> pathlib.Path:
    """Returns a local folder in place of another one; it is removed at the end of the process."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="transformer-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def part_files(folder: pathlib.Path, num_parts: int) -> list[pathlib.Path]:
    """Returns the files of the parts, in order."""
    return [folder / part_name(number, ARROW) for number in range(num_parts)]
