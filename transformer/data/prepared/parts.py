"""Parts of a corpus that is being prepared: each is tokenised by itself and kept in a file.

A part is there as a whole or not at all, so a preparation that was killed goes on where it stopped.
"""

import io
import json
import re
import uuid
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer import storage
from transformer.config import DataConfig
from transformer.data.length_filter import filter_by_length
from transformer.data.pair_blocks import Pairs
from transformer.data.ragged import Ragged
from transformer.data.text_files import Repairs
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import READERS
from transformer.data.training_text import KeepPairs, NumberedBlock

ARRAYS = "source_ids", "target_ids", "source_lengths", "target_lengths"
FACTS = "facts"
PART = re.compile(r"(\d{6})\.npz")


class DamagedPartError(Exception):
    """A part that is not what was written; `args` holds its number."""


class PartFacts(NamedTuple):
    """What is known of a part besides its arrays.

    corpus: the index of its corpus. num_pairs: those that may be trained on. repairs: by file,
    (number of lines by fault, the first of them). left_out and unfit: number of pairs by reason;
    the latter by their lengths in tokens.
    """

    corpus: int
    num_pairs: int
    num_ids: tuple[int, int]
    repairs: dict[str, tuple[dict[str, int], dict[str, list[int]]]]
    left_out: dict[str, int]
    unfit: dict[str, int]


def part_path(folder: epath.Path, number: int) -> epath.Path:
    """Returns the file of a part."""
    return folder / f"{number:06}.npz"


def finished_parts(folder: epath.Path) -> set[int]:
    """Returns the numbers of the parts that a folder holds."""
    names = [path.name for path in folder.iterdir()] if folder.exists() else []
    return {int(match[1]) for match in map(PART.fullmatch, names) if match}


def read_part(folder: epath.Path, number: int, names: Sequence[str]) -> Iterator[np.ndarray]:
    """Yields the arrays of a part that are named; raises DamagedPartError.

    Each has a checksum in the file, which is verified.
    """
    try:
        with part_path(folder, number).open("rb") as file, np.load(file) as arrays:
            for name in names:
                yield arrays[name]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise DamagedPartError(number) from None


def read_facts(folder: epath.Path, number: int) -> PartFacts:
    """Returns the facts of a part; raises DamagedPartError."""
    (array,) = read_part(folder, number, [FACTS])
    return PartFacts(*json.loads(array.tobytes()))


def id_type(vocab_size: int) -> type[np.unsignedinteger[Any]] | type[np.signedinteger[Any]]:
    """Returns the smallest of two types that holds every id of a vocabulary."""
    return np.uint16 if vocab_size <= 2**16 else np.int32


def length_type(row_length: int) -> type[np.unsignedinteger[Any]] | type[np.signedinteger[Any]]:
    """Returns the smallest of two types that holds every length up to that of a row."""
    return np.uint16 if row_length < 2**16 else np.int32


@dataclass
class WritePart:
    """Tokenises a block of the training text and writes it: `WritePart(…)(block)`.

    tokenizers: (suffix, content) of the file of each side's. folder: where the part is written.
    """

    data: DataConfig
    held_out: Pairs
    tokenizers: tuple[tuple[str, bytes], ...]
    folder: str

    @cached_property
    def _keep(self) -> KeepPairs:
        return KeepPairs(self.data, self.held_out)

    @cached_property
    def _tokenizers(self) -> list[Tokenizer]:
        return [READERS[suffix](content) for suffix, content in self.tokenizers]

    def __call__(self, numbered: NumberedBlock) -> None:
        pairs, repairs, left_out = self._keep(numbered)
        source, target = (
            Ragged.encode(tokenizer, [pair[side] for pair in pairs])
            for side, tokenizer in enumerate(self._tokenizers)
        )
        row_length = self.data.row_length
        kept, unfit = filter_by_length(source, target, row_length, self.data.max_length_ratio)
        gathered = [side.gather(kept) for side in (source, target)]
        types = [id_type(tokenizer.vocab_size) for tokenizer in self._tokenizers]
        ids = [flat.astype(t) for (flat, _), t in zip(gathered, types, strict=True)]
        lengths = [n.astype(length_type(row_length)) for _, n in gathered]
        facts = PartFacts(
            numbered.corpus,
            len(kept),
            (len(ids[0]), len(ids[1])),
            {name: (found.counts, found.first) for name, found in repairs.items()},
            left_out,
            unfit,
        )
        arrays = dict(zip(ARRAYS, [*ids, *lengths], strict=True))
        arrays[FACTS] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        file = io.BytesIO()  # as zip files are written to and fro
        np.savez(file, allow_pickle=False, **arrays)
        path = part_path(epath.Path(self.folder), numbered.number)
        storage.write_atomically(path, file.getvalue(), f".{uuid.uuid4().hex}")


def total_left_out(facts: Sequence[PartFacts]) -> Counter[str]:
    """Returns how many lines were repaired and pairs left out of all parts, by reason."""
    left_out = Counter[str]()
    for corpus in sorted({part.corpus for part in facts}):
        repairs: dict[str, Repairs] = {}
        parts = [part for part in facts if part.corpus == corpus]
        for part in parts:
            for name, found in part.repairs.items():
                repairs.setdefault(name, Repairs()).add(*found)
        for name, total in repairs.items():
            left_out.update(total.named(name))
        for part in parts:
            left_out.update(part.left_out)
    for part in facts:
        left_out.update(part.unfit)
    return left_out
