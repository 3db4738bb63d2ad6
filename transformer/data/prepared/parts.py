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
from transformer.data.cleaning import KeepPairs, KeptPairs
from transformer.data.left_out import LeftOutPair, sample_of
from transformer.data.length_filter import Filtered, filter_by_length
from transformer.data.pair_blocks import Block, NumberedBlock
from transformer.data.prepared.hashes import hash_arrays
from transformer.data.ragged import Ragged
from transformer.data.text_files import Repairs
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import READERS
from transformer.reading import unreadable

ARRAYS = "source_ids", "target_ids", "source_lengths", "target_lengths"
FACTS, SAMPLE, INDICES = "facts", "sample", "indices"
PART = re.compile(r"(\d{6})\.npz")


class DamagedPartError(Exception):
    """A part that is not what was written; `args` holds its number."""


class PartFacts(NamedTuple):
    """What is known of a part besides its arrays.

    corpus: the index of its corpus. num_pairs: those that may be trained on. repairs: by file,
    (number of lines by fault, the first of them). left_out and unfit: number of pairs by reason;
    the latter by their lengths in tokens. name, first: of its block. evaluation: the digest of the
    evaluation sets, of which it has the sentences with the numbers of `overlap`, of each side.
    """

    corpus: int
    num_pairs: int
    num_ids: tuple[int, int]
    repairs: dict[str, tuple[dict[str, int], dict[str, list[int]]]]
    left_out: dict[str, int]
    unfit: dict[str, int]
    name: str
    first: int
    evaluation: str
    overlap: tuple[list[int], list[int]]


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
    except OSError as error:
        raise unreadable(str(part_path(folder, number)), error) from None
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


def read_sample(folder: epath.Path, number: int) -> list[LeftOutPair]:
    """Returns some of the pairs that were left out of a part; raises DamagedPartError."""
    (array,) = read_part(folder, number, [SAMPLE])
    return [LeftOutPair(*fields) for fields in json.loads(array.tobytes())]


@dataclass
class WritePart:
    """Tokenises a block of the training text and writes it: `WritePart(…)(block)`.

    tokenizers: (suffix, content) of the file
    of each side's. folder: where the part is written.
    """

    keep: KeepPairs
    tokenizers: tuple[tuple[str, bytes], ...]
    folder: str

    @cached_property
    def _tokenizers(self) -> list[Tokenizer]:
        return [READERS[suffix](content) for suffix, content in self.tokenizers]

    def __call__(self, numbered: NumberedBlock) -> None:
        block, data = numbered.block, self.keep.config
        kept = self.keep(numbered)
        source, target = (
            Ragged.encode(tokenizer, [pair[side] for pair in kept.pairs])
            for side, tokenizer in enumerate(self._tokenizers)
        )
        fitting = filter_by_length(source, target, data.row_length, data.max_length_ratio)
        pairs = [kept.pairs[index] for index in fitting.kept]
        arrays = self._tokens(source, target, fitting.kept)
        if data.drop_duplicates:
            arrays[INDICES] = kept.indices[fitting.kept]
            arrays |= hash_arrays(pairs, data.drop_duplicates)
        facts = PartFacts(
            numbered.corpus,
            len(pairs),
            (len(arrays["source_ids"]), len(arrays["target_ids"])),
            {name: (found.counts, found.first) for name, found in kept.repairs.items()},
            kept.left_out,
            fitting.skipped,
            block.name,
            block.first,
            self.keep.evaluation.digest,
            _overlap(kept, fitting),
        )
        sample = kept.sample + _sample_of_unfit(block, kept, fitting)
        arrays |= {FACTS: _as_array(facts), SAMPLE: _as_array(sample)}
        file = io.BytesIO()  # as zip files are written to and fro
        np.savez(file, allow_pickle=False, **arrays)
        path = part_path(epath.Path(self.folder), numbered.number)
        storage.write_atomically(path, file.getvalue(), f".{uuid.uuid4().hex}")

    def _tokens(self, source: Ragged, target: Ragged, kept: np.ndarray) -> dict[str, np.ndarray]:
        """Returns the arrays of the pairs that are kept."""
        gathered = [side.gather(kept) for side in (source, target)]
        types = [id_type(tokenizer.vocab_size) for tokenizer in self._tokenizers]
        ids = [flat.astype(t) for (flat, _), t in zip(gathered, types, strict=True)]
        lengths = [n.astype(length_type(self.keep.config.row_length)) for _, n in gathered]
        return dict(zip(ARRAYS, [*ids, *lengths], strict=True))


def _overlap(kept: KeptPairs, fitting: Filtered) -> tuple[list[int], list[int]]:
    """Returns the numbers of the evaluation sentences that pairs of the part have, of each side."""
    stay = set(kept.indices[fitting.kept].tolist())
    source, target = (
        sorted({number for index, number in side.items() if index in stay}) for side in kept.overlap
    )
    return source, target


def _sample_of_unfit(block: Block, kept: KeptPairs, fitting: Filtered) -> list[LeftOutPair]:
    pairs = {
        int(kept.indices[i]): kept.pairs[i] for where in fitting.by_reason.values() for i in where
    }
    by_reason = {reason: kept.indices[where] for reason, where in fitting.by_reason.items()}
    return sample_of(pairs, block.name, block.first, by_reason)


def _as_array(facts: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(facts).encode(), np.uint8)


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
