"""A prepared corpus: the ids of all pairs in files that are mapped into memory.

header.json         what it was made of, what was left out, size and CRC-32 of the other files; it
                    is written last, and without it the folder is no prepared corpus
source_ids.npy      the ids of all source sentences, one after another: uint16, or int32 where the
                    vocabulary is larger than that
source_lengths.npy  the number of ids of each: uint16, or int32 for rows longer than that
target_ids.npy, target_lengths.npy    the same of the other side
left_out.tsv        some of the pairs that were left out, by reason
held_out.json       the pairs that are held out of the training text
verified.json       sizes and times of the files when their checksums were last compared
"""

import json
import mmap
import os
import pathlib
import shutil
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from etils import epath

from transformer import storage
from transformer.console import counted
from transformer.data.epoch_pairs import CorpusPart
from transformer.data.held_out import HELD_OUT, read_held_out
from transformer.data.left_out import LEFT_OUT
from transformer.data.overlap import EvaluationSets, Overlap
from transformer.data.pair_blocks import Pairs
from transformer.data.prepared.cache import temporary_folder
from transformer.data.prepared.key import FORMAT
from transformer.data.ragged import Ragged, Starts
from transformer.folders import remove_folder
from transformer.reading import parse_json

HEADER, VERIFIED = "header.json", "verified.json"
CHUNK = 2**24  # bytes that are read at a time
MISSING = FileNotFoundError, NotADirectoryError, IsADirectoryError  # what is no file is damage
MOST_TOUCHED = 2**13  # ids after whose reading the pages they are on are given back


class DamagedCorpusError(Exception):
    """A prepared corpus whose files are not what was written; says which and why."""


class MappedArray:
    """An array in an .npy file, of which only the pages that are read come into memory.

    They are given back soon, to be read again from the system's cache of files: the resident memory
    of a process would else grow to the size of the file, where pages are read here and there.
    """

    def __init__(self, path: pathlib.Path) -> None:
        with open(path, "rb") as file:
            np.lib.format.read_magic(file)
            shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.array = np.frombuffer(self._map, dtype, offset=file.tell()).reshape(shape)
        self._num_touched = 0

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        found = self.array[index]
        self._num_touched += found.size
        if self._num_touched > MOST_TOUCHED:
            self._map.madvise(mmap.MADV_DONTNEED)
            self._num_touched = 0
        return found


class PreparedCorpus:
    """The training pairs of a run.

    source, target: their ids. held_out: the pairs that are held out for other splits. left_out:
    number of repaired lines and of pairs that were left out, by reason. sample: the content of
    left_out.tsv. header: as in the file.
    """

    def __init__(self, folder: pathlib.Path, header: dict[str, Any]) -> None:
        """Takes the local folder with the files."""
        self.folder, self.header = folder, header
        self.source, self.target = (self._map_side(side) for side in ("source", "target"))
        self.held_out: Pairs = read_held_out(epath.Path(folder)) or []
        self.left_out = Counter[str](header["left_out"])
        self.sample = (folder / LEFT_OUT).read_text(encoding="utf-8")

    def _map_side(self, side: str) -> Ragged:
        ids = MappedArray(self.folder / f"{side}_ids.npy")
        lengths = MappedArray(self.folder / f"{side}_lengths.npy").array
        return Ragged(ids, Starts(lengths), lengths)

    def parts(self, weights: Sequence[float]) -> list[CorpusPart]:
        """Returns the corpora that the pairs belong to. weights: of each, in the same order."""
        sizes = self.header["pairs_of_corpora"]
        return [CorpusPart(size, weight) for size, weight in zip(sizes, weights, strict=True)]

    def overlap_with(self, evaluation: EvaluationSets) -> str:
        """Returns what to tell the user of the sentences of these sets that are in the text.

        It is "" if there are none. They were counted when the corpus was prepared.
        """
        overlap = self.header["overlap"] and Overlap(*self.header["overlap"])
        if overlap and overlap.digest == evaluation.digest:
            return str(overlap)
        return (
            f"whether sentences of the validation and test sets are in the training text was not "
            f"counted for these sets: remove {self.folder} to have the text prepared anew"
        )

    def save_notes(self, folder: epath.Path) -> None:
        """Copies left_out.tsv and held_out.json to a folder, if there are such pairs."""
        if self.held_out:
            storage.write_atomically(folder / HELD_OUT, json.dumps(self.held_out))
        if self.sample.count("\n") > 1:  # lines, the first of which is the header
            storage.write_atomically(folder / LEFT_OUT, self.sample)

    @property
    def checksums(self) -> dict[str, Any]:
        """Sizes and checksums of the files, which are equal for equal contents."""
        return self.header["files"]


def open_corpus(folder: epath.Path) -> PreparedCorpus | None:
    """Opens a prepared corpus; returns None if the folder holds none, or of another format.

    Of gs://… the files are copied to a temporary folder, which is removed at the end of the
    process. Raises DamagedCorpusError if a file is missing, cut short or altered, and OSError if
    one cannot be read or copied.
    """
    if not (folder / HEADER).exists():
        return None
    try:
        header = _read_header(folder)
        if header.get("format") != FORMAT:
            return None
        local = _fetch(folder, header) if storage.is_remote(folder) else pathlib.Path(folder)
        _verify(local, header["files"])
        return PreparedCorpus(local, header)
    except (*MISSING, KeyError, TypeError, ValueError) as error:
        raise DamagedCorpusError(f"{folder} cannot be used: {error}") from None


def _read_header(folder: epath.Path) -> dict[str, Any]:
    """Returns the header; raises ValueError if it is not what was written."""
    with suppress(ValueError, KeyError, AttributeError):
        header = parse_json((folder / HEADER).read_text(encoding="utf-8"))
        if header.pop("crc32") == header_checksum(header):
            return header
    raise ValueError(f"{HEADER} was altered or cut short")


def header_checksum(header: dict[str, Any]) -> int:
    """Returns the CRC-32 of a header that does not hold it yet."""
    return zlib.crc32(json.dumps(header).encode())


def _fetch(folder: epath.Path, header: dict[str, Any]) -> pathlib.Path:
    """Returns a local copy, of which nothing is left if it cannot be made."""
    local = temporary_folder()
    try:
        for name in counted(header["files"], "copying the prepared corpus", len(header["files"])):
            with (folder / name).open("rb") as source, open(local / name, "wb") as copy:
                shutil.copyfileobj(source, copy, CHUNK)
    except OSError:
        remove_folder(local)
        raise
    return local


# ---- verification


def _verify(folder: pathlib.Path, files: dict[str, dict[str, int]]) -> None:
    """Raises ValueError if a file does not have the size and the checksum that the header says.

    Sizes are compared each time. Checksums, which need the whole file, are compared when its size
    or times are not those of the last comparison: whatever is written into a file changes them.
    """
    for name, facts in files.items():
        size = (folder / name).stat().st_size
        if size != facts["bytes"]:
            raise ValueError(f"{name} has {size} bytes instead of {facts['bytes']}")
    if _read_verified(folder) == _times(folder, files):
        return
    for name in counted(files, "verifying the prepared corpus", len(files)):
        if checksum(folder / name) != files[name]["crc32"]:
            raise ValueError(f"{name} was altered: its checksum is another one")
    mark_verified(folder, files)


def checksum(path: pathlib.Path) -> int:
    """Returns the CRC-32 of a file."""
    crc = 0
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def mark_verified(folder: pathlib.Path, files: dict[str, dict[str, int]]) -> None:
    """Notes that the files are what was written; where the folder cannot be written, nothing."""
    with suppress(OSError):
        content = json.dumps(_times(folder, files))
        storage.write_atomically(folder / VERIFIED, content, f".{os.getpid()}")


def _times(folder: pathlib.Path, files: dict[str, dict[str, int]]) -> dict[str, list[int]]:
    """Returns size and the times of the last changes, of content and of anything, of each file."""
    statuses = {name: os.stat(folder / name) for name in files}
    return {name: [s.st_size, s.st_mtime_ns, s.st_ctime_ns] for name, s in statuses.items()}


def _read_verified(folder: pathlib.Path) -> object:
    with suppress(OSError, ValueError):
        return parse_json((folder / VERIFIED).read_text(encoding="utf-8"))
    return None
