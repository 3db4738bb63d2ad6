"""A prepared corpus: the list of its parts, which are written once and mapped into memory.

header.json    what it was made of, how many parts it has, how many pairs were left out, the pairs
               that are held out; it is written last: without it the folder is no prepared corpus
000000.arrow   the pairs of the first block of the text; and so on. Columns `source` and `target`
               are their ids, lists of uint16, or of uint32 where the vocabulary is larger than
               that. With data.drop_duplicates there are also hashes of each pair. What else is
               known of the part is JSON in the metadata
kept.arrow     with data.drop_duplicates, the indices of the pairs of each part that occur in no
               earlier place
left_out.tsv   some of the pairs that were left out, by reason

Parts are compared by hashes of their pairs, in the order of the text. Two different ones among n
sentences have the same hash of 64 bits, so that a pair is left out by mistake, with a probability
of at most n²/2^65: 4 in 100,000 for 36 million.
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
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from etils import epath

from transformer.console import counted
from transformer.data.corpora.cleaning import (
    HELD_OUT,
    LEFT_OUT,
    SAMPLE_SIZE,
    EvaluationSets,
    KeepPairs,
    filter_by_length,
    format_sample,
    left_out_pair,
    no_pair_error,
)
from transformer.data.corpora.pair_files import Block, Pairs
from transformer.data.corpora.training_text import TrainingText
from transformer.data.files.text import Repairs
from transformer.data.rows.epoch_plan import CorpusPart
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files import storage
from transformer.files.parts import Parts, part_name
from transformer.files.reading import unreadable

HEADER, KEPT, ARROW = "header.json", "kept.arrow", "arrow"
SIDES = "source", "target"
INDEX, NOTES = "index", b"notes"
HASH = np.dtype("<u8")
NUM_BUCKETS = 16  # of hashes, which are sorted one after another, so that little memory is needed
COMPARED = {  # what is compared one after another, of each data.drop_duplicates
    "": (),
    "pair": ("pair",),
    "source": ("source",),
    "target": ("target",),
    "either": ("source", "target"),
}
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
                self.column = reader.get_batch(0).column
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
        column = self.column(name)
        return column.values.to_numpy(), column.offsets.to_numpy()

    def give_back(self) -> None:
        """Gives up the pages that were read; they are read again from the system's cache of files.

        The resident memory of a process would else grow to the size of the files.
        """
        MADVISE(self._content.address, self._content.size, mmap.MADV_DONTNEED)


def part_files(folder: pathlib.Path, num_parts: int) -> list[pathlib.Path]:
    """Returns the files of the parts, in order."""
    return [folder / part_name(number, ARROW) for number in range(num_parts)]


def local_files(folder: epath.Path) -> pathlib.Path:
    """Returns a local folder with the files of one, which are copied from gs:// if need be."""
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


# ---- writing


def write_part(keep: KeepPairs, tokenizers: Sequence[Tokenizer], folder: str, block: Block) -> None:
    """Tokenises a block of the training text and writes the part, unless another process has."""
    parts, name = Parts(epath.Path(folder)), part_name(block.number, ARROW)
    if (parts.folder / name).exists():
        return
    data, kept = keep.config, keep(block)
    sides = source, target = [
        Ragged.encode(tokenizer, [pair[side] for pair in kept.pairs])
        for side, tokenizer in enumerate(tokenizers)
    ]
    fitting, too_long = filter_by_length(source, target, data.row_length, data.max_length_ratio)
    indices, columns, checksum = kept.indices[fitting], {}, 0
    for column, side, tokenizer in zip(SIDES, sides, tokenizers, strict=True):
        ids, lengths = side.gather(fitting)
        ids = ids.astype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
        columns[column], checksum = arrow_lists(ids, lengths), zlib.crc32(ids.data, checksum)
    if data.drop_duplicates:
        columns |= _hashes([kept.pairs[index] for index in fitting], data.drop_duplicates)
    left_out = kept.left_out | {why: kept.indices[where] for why, where in too_long.items()}
    trained_on = set(indices.tolist())
    notes = {
        "corpus": block.corpus,  # its index
        "num_pairs": len(indices),
        "checksum": checksum,  # CRC-32 of the ids
        "repairs": kept.repairs,
        "left_out": {reason: len(where) for reason, where in left_out.items()},
        "sample": [
            left_out_pair(reason, block.files[0], block.first + int(i), kept.decoded[i])
            for reason, where in left_out.items()
            for i in where[:SAMPLE_SIZE]
        ],
        "evaluation": keep.evaluation.digest,  # of the sets that `overlap` numbers
        "overlap": sorted({number for i, number in kept.overlap if i in trained_on}),
    }
    parts.write(name, arrow_bytes(columns, json.dumps(notes)))


def _hashes(pairs: Pairs, drop_duplicates: str) -> dict[str, np.ndarray]:
    """Returns the columns of hashes that the setting needs; spaces at the ends do not count."""
    sources, targets = ([pair[side].strip() for pair in pairs] for side in (0, 1))
    texts = {"source": sources, "target": targets}
    texts["pair"] = list(map("\n".join, zip(sources, targets, strict=True)))
    columns = {}
    for name in COMPARED[drop_duplicates]:
        encoded = (text.encode("utf-8", "surrogatepass") for text in texts[name])
        digests = b"".join(blake2b(text, digest_size=8).digest() for text in encoded)
        columns[f"{name}_hash"] = np.frombuffer(digests, HASH)
    return columns


def write_header(
    folder: epath.Path, text: TrainingText, num_parts: int, recipe: dict[str, Any]
) -> None:
    """Writes the other files of a corpus whose parts are there, the header last.

    Raises ValueError if no pair is left to train on, and DamagedFileError.
    """
    write, files = Parts(folder).write, part_files(local_files(folder), num_parts)
    notes = [json.loads(ArrowFile(file).notes) for file in files]
    repairs, left_out = Repairs(), Counter[str]()
    for part in notes:
        repairs.add(part["repairs"])
        left_out.update(part["left_out"])
    left_out = repairs.named() + left_out
    sizes = [part["num_pairs"] for part in notes]
    if not sum(sizes):
        raise no_pair_error(text.config, left_out)
    if reasons := [f"a repeated {name}" for name in COMPARED[text.config.drop_duplicates]]:
        codes = find_repeated(files, sizes, text.config.drop_duplicates)
        kept = [np.flatnonzero(part_codes == 0).astype(np.uint32) for part_codes in codes]
        sizes = [len(indices) for indices in kept]
        write(KEPT, arrow_bytes({INDEX: arrow_lists(np.concatenate(kept), np.array(sizes))}))
        counts = np.bincount(np.concatenate(codes), minlength=len(reasons) + 1)[1:].tolist()
        left_out += Counter(dict(zip(reasons, counts, strict=True)))
    pairs_of_corpora = [0] * len(text.corpora)
    for part, size in zip(notes, sizes, strict=True):
        pairs_of_corpora[part["corpus"]] += size
    evaluation, overlap = text.evaluation, None
    if all(part["evaluation"] == evaluation.digest for part in notes):  # of no other sets
        numbers = {number for part in notes for number in part["overlap"]}
        overlap = evaluation.digest, evaluation.count(numbers)
    header = {
        "recipe": recipe,
        "text": text.facts,
        "num_parts": num_parts,
        "has_repeated": bool(reasons),
        "pairs": sum(sizes),
        "pairs_of_corpora": pairs_of_corpora,
        "left_out": left_out,
        "overlap": overlap,
        "checksums": [part["checksum"] for part in notes],
        "held_out": text.held_out,
    }
    sample = format_sample(tuple(pair) for part in notes for pair in part["sample"])
    write(LEFT_OUT, sample.encode(errors="replace"))
    write(HEADER, json.dumps(header))


def find_repeated(
    files: Sequence[pathlib.Path], sizes: Sequence[int], drop_duplicates: str
) -> list[np.ndarray]:
    """Returns, for each part, [number of pairs] uint8: 0 stays, n is left out for the n-th reason.

    files, sizes: of all parts, in order; a size is the number of pairs. Raises DamagedFileError.

    Hashes are sorted a bucket at a time, by their last four bits, which takes about 12 bytes a pair
    in all. For the hashes 7 5 7 7 of which the first has the code 1 already, the codes of the
    second reason become 1 0 0 2.
    """
    codes, hashes = np.zeros(sum(sizes), np.uint8), np.empty(sum(sizes), HASH)
    bounds = np.cumsum(sizes)[:-1]
    last_bytes = hashes.view(np.uint8)[:: HASH.itemsize]  # as they are little-endian
    for code, name in enumerate(COMPARED[drop_duplicates], 1):
        places = zip(np.split(hashes, bounds), files, strict=True)
        for place, file in counted(places, "looking for what occurs again", len(files)):
            place[:] = ArrowFile(file).column(f"{name}_hash").to_numpy()
        for bucket in range(NUM_BUCKETS):
            where = np.flatnonzero((last_bytes % NUM_BUCKETS == bucket) & (codes == 0))
            order = np.argsort(hashes[where], kind="stable")
            in_order = hashes[where[order]]
            codes[where[order[1:][in_order[1:] == in_order[:-1]]]] = code
    return np.split(codes, bounds)


# ---- reading


class SentencesOfParts(Ragged):
    """One side of a prepared corpus: the sentences of its parts, one after another."""

    def __init__(
        self, parts: Sequence[ArrowFile], side: str, kept: Sequence[np.ndarray] | None
    ) -> None:
        """kept: the indices of those pairs of each part that it has; None: all pairs."""
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
        counts = [
            f"{n:,} of {total:,} pairs of {name}" for name, (n, total) in overlap.items() if n
        ]
        if not counts:
            return ""
        return (
            f"{' and '.join(counts)} have the source or the target of a pair that is trained on; "
            f"--config.data.drop_overlap leaves such training pairs out"
        )

    def save_notes(self, folder: epath.Path) -> None:
        """Copies left_out.tsv and held_out.json to a folder, if there are such pairs."""
        if self.held_out:
            storage.write_atomically(folder / HELD_OUT, json.dumps(self.held_out))
        sample = self.folder / LEFT_OUT
        if sample.exists() and (content := sample.read_bytes()).count(b"\n") > 1:  # with its head
            storage.write_atomically(folder / LEFT_OUT, content)
