"""Parts of a prepared corpus: the pairs of one block of the text, as ids, in an Arrow file.

Columns `source` and `target` are lists of uint16, or of uint32 where the vocabulary is larger than
that. With `data.drop_duplicates` there are also hashes of each pair and its `index` in the block.
"""

import json
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.data.cleaning import KeepPairs, KeptPairs
from transformer.data.left_out import LeftOutPair, sample_of
from transformer.data.length_filter import Filtered, filter_by_length
from transformer.data.pair_blocks import NumberedBlock
from transformer.data.prepared.arrow_files import ARROW, ArrowFile, arrow_bytes, arrow_lists
from transformer.data.prepared.duplicates import hash_columns
from transformer.data.ragged import Ragged
from transformer.data.text_files import Repairs
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import READERS
from transformer.files.parts import Parts, part_name

SIDES = "source", "target"
INDEX = "index"


class PartFacts(NamedTuple):
    """What is known of a part besides its columns.

    corpus: the index of its corpus. num_pairs: those that may be trained on. checksum: the CRC-32
    of their ids. repairs: by file, (number of lines by fault, the first of them). left_out and
    unfit: number of pairs by reason; the latter by their lengths in tokens. sample: some of both.
    name, first: of its block. evaluation: the digest of the evaluation sets, of which it has the
    sentences with the numbers of `overlap`, of each side.
    """

    corpus: int
    num_pairs: int
    checksum: int
    repairs: dict[str, tuple[dict[str, int], dict[str, list[int]]]]
    left_out: dict[str, int]
    unfit: dict[str, int]
    sample: list[LeftOutPair]
    name: str
    first: int
    evaluation: str
    overlap: tuple[list[int], list[int]]


def facts_of(part: ArrowFile) -> PartFacts:
    """Returns the facts of a part."""
    facts = PartFacts(*json.loads(part.notes))
    return facts._replace(sample=[LeftOutPair(*fields) for fields in facts.sample])


@dataclass
class WritePart:
    """Tokenises a block of the training text and writes it: `WritePart(…)(block)`.

    tokenizers: (suffix, content) of the file of each side's. folder: where the part is written.
    """

    keep: KeepPairs
    tokenizers: tuple[tuple[str, bytes], ...]
    folder: str

    @cached_property
    def _tokenizers(self) -> list[Tokenizer]:
        return [READERS[suffix](content) for suffix, content in self.tokenizers]

    def __call__(self, numbered: NumberedBlock) -> None:
        folder, name = epath.Path(self.folder), part_name(numbered.number, ARROW)
        if not (folder / name).exists():  # another process may have been sooner
            Parts(folder).write(name, self._content(numbered))

    def _content(self, numbered: NumberedBlock) -> bytes:
        """Returns the content of a part's file."""
        block, data = numbered.block, self.keep.config
        kept = self.keep(numbered)
        source, target = (
            Ragged.encode(tokenizer, [pair[side] for pair in kept.pairs])
            for side, tokenizer in enumerate(self._tokenizers)
        )
        fitting = filter_by_length(source, target, data.row_length, data.max_length_ratio)
        columns, checksum = self._columns((source, target), fitting.kept)
        if data.drop_duplicates:
            pairs = [kept.pairs[index] for index in fitting.kept]
            columns |= hash_columns(pairs, data.drop_duplicates)
            columns[INDEX] = kept.indices[fitting.kept]
        unfit = {
            reason: [(int(kept.indices[i]), kept.pairs[i]) for i in where]
            for reason, where in fitting.by_reason.items()
        }
        facts = PartFacts(
            numbered.corpus,
            len(fitting.kept),
            checksum,
            {name: (found.counts, found.first) for name, found in kept.repairs.items()},
            kept.left_out,
            fitting.skipped,
            kept.sample + sample_of(block.name, block.first, unfit),
            block.name,
            block.first,
            self.keep.evaluation.digest,
            _overlap(kept, fitting),
        )
        return arrow_bytes(columns, json.dumps(facts))

    def _columns(self, sides: Sequence[Ragged], kept: np.ndarray) -> tuple[dict[str, Any], int]:
        """Returns (columns of the ids of the pairs that are kept, their checksum)."""
        columns, checksum = {}, 0
        for name, side, tokenizer in zip(SIDES, sides, self._tokenizers, strict=True):
            ids, lengths = side.gather(kept)
            ids = ids.astype(np.uint16 if tokenizer.vocab_size <= 2**16 else np.uint32)
            columns[name], checksum = arrow_lists(ids, lengths), zlib.crc32(ids.data, checksum)
        return columns, checksum


def _overlap(kept: KeptPairs, fitting: Filtered) -> tuple[list[int], list[int]]:
    """Returns the numbers of the evaluation sentences that pairs of the part have, of each side."""
    stay = set(kept.indices[fitting.kept].tolist())
    source, target = (
        sorted({number for index, number in side.items() if index in stay}) for side in kept.overlap
    )
    return source, target


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
