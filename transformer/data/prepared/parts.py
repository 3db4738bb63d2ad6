"""Writes a prepared corpus: its parts, and when all are there what follows from them together.

A part is an Arrow file with the pairs of one block of the text, as ids: columns `source` and
`target` are lists of uint16, or of uint32 where the vocabulary is larger than that. With
`data.drop_duplicates` there are also hashes of each pair and its `index` in the block.

Of each pair, a hash of 64 bits is kept with its part, and the parts are compared in the order of
the text: what is left out does not depend on who prepared which of them. Two different ones among n
sentences have the same hash, so that a pair is left out by mistake, with a probability of at most
n²/2^65: 4 in 100,000 for 36 million.
"""

import json
import pathlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.console import counted
from transformer.data.corpora.blocks import Block, Pairs
from transformer.data.corpora.cleaning import (
    LEFT_OUT,
    SAMPLE_SIZE,
    KeepPairs,
    LeftOutPair,
    filter_by_length,
    format_sample,
    left_out_pair,
    no_pair_error,
    spread,
)
from transformer.data.corpora.held_out import EvaluationSets
from transformer.data.corpora.training_text import TrainingText
from transformer.data.files.text import Repairs
from transformer.data.prepared.cache import Facts
from transformer.data.prepared.corpus import (
    ARROW,
    HEADER,
    INDEX,
    KEPT,
    SIDES,
    ArrowFile,
    arrow_bytes,
    arrow_lists,
    local_files,
    part_files,
)
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import READERS
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files.parts import Parts, part_name

HASH = np.dtype("<u8")
NUM_BUCKETS = 16  # which are sorted one after another, so that little memory is needed
COMPARED = {  # what is compared one after another, of each data.drop_duplicates
    "": (),
    "pair": ("pair",),
    "source": ("source",),
    "target": ("target",),
    "either": ("source", "target"),
}


class PartFacts(NamedTuple):
    """What is known of a part besides its columns.

    corpus: the index of its corpus. file, first: of its block. num_pairs: those that may be trained
    on. checksum: the CRC-32 of their ids. repairs: of its lines. left_out: number of pairs by
    reason; sample: some of them. evaluation: the digest of the evaluation sets, of which it has the
    sentences with the numbers of `overlap`, of each side.
    """

    corpus: int
    file: str
    first: int
    num_pairs: int
    checksum: int
    repairs: list[tuple[tuple[str, str], list[int]]]
    left_out: dict[str, int]
    sample: list[LeftOutPair]
    evaluation: str
    overlap: list[list[int]]


def facts_of(part: ArrowFile) -> PartFacts:
    """Returns the facts of a part."""
    facts = PartFacts(*json.loads(part.notes))
    return facts._replace(
        repairs=[((file, fault), numbers) for (file, fault), numbers in facts.repairs],
        sample=[LeftOutPair(*fields) for fields in facts.sample],
    )


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

    def __call__(self, block: Block) -> None:
        folder, name = epath.Path(self.folder), part_name(block.number, ARROW)
        if not (folder / name).exists():  # another process may have been sooner
            Parts(folder).write(name, self._content(block))

    def _content(self, block: Block) -> bytes:
        """Returns the content of a part's file."""
        data, kept = self.keep.config, self.keep(block)
        source, target = (
            Ragged.encode(tokenizer, [pair[side] for pair in kept.pairs])
            for side, tokenizer in enumerate(self._tokenizers)
        )
        fitting = filter_by_length(source, target, data.row_length, data.max_length_ratio)
        columns, checksum = self._columns((source, target), fitting.kept)
        indices = kept.indices[fitting.kept]
        if data.drop_duplicates:
            pairs = [kept.pairs[index] for index in fitting.kept]
            columns |= hash_columns(pairs, data.drop_duplicates) | {INDEX: indices}
        sample = [
            left_out_pair(reason, block.files[0], block.first + int(kept.indices[i]), kept.pairs[i])
            for reason, where in fitting.by_reason.items()
            for i in where[:SAMPLE_SIZE]
        ]
        trained_on = set(indices.tolist())
        facts = PartFacts(
            block.corpus,
            block.files[0],
            block.first,
            len(indices),
            checksum,
            list(kept.repairs.items()),
            kept.left_out + fitting.skipped,
            kept.sample + sample,
            self.keep.evaluation.digest,
            [
                sorted({number for index, number in side.items() if index in trained_on})
                for side in kept.overlap
            ],
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


def total_left_out(facts: Sequence[PartFacts]) -> Counter[str]:
    """Returns how many lines were repaired and pairs left out of all parts, by reason."""
    repairs, left_out = Repairs(), Counter[str]()
    for part in facts:
        repairs.add(dict(part.repairs))
        left_out.update(part.left_out)
    return repairs.named() + left_out


# ---- what follows from all parts together


def write_header(
    folder: epath.Path,
    num_parts: int,
    text: TrainingText,
    made_of: Facts,
    tokenizers: Sequence[Tokenizer],
) -> None:
    """Writes the files of a corpus whose parts are there, the header last.

    Others may write the same ones at once. Raises ValueError if no pair is left to train on, and
    DamagedFileError.
    """
    write, files = Parts(folder).write, part_files(local_files(folder), num_parts)
    facts = [facts_of(ArrowFile(file)) for file in files]
    left_out, sample = total_left_out(facts), [pair for part in facts for pair in part.sample]
    sizes = [part.num_pairs for part in facts]
    if not sum(sizes):
        raise no_pair_error(text.config, left_out)
    if reasons := [f"a repeated {name}" for name in COMPARED[text.config.drop_duplicates]]:
        codes = find_repeated(files, sizes, text.config.drop_duplicates)
        kept = [np.flatnonzero(part_codes == 0).astype(np.uint32) for part_codes in codes]
        sizes = [len(indices) for indices in kept]
        column = arrow_lists(np.concatenate(kept), np.array(sizes))
        write(KEPT, arrow_bytes({INDEX: column}))
        counts = np.bincount(np.concatenate(codes), minlength=len(reasons) + 1)[1:].tolist()
        left_out += Counter(dict(zip(reasons, counts, strict=True)))
        for file, part_codes in zip(files, codes, strict=True):
            sample += _repeated_pairs(ArrowFile(file), part_codes, reasons, tokenizers)
    pairs_of_corpora = [0] * len(text.corpora)
    for part, size in zip(facts, sizes, strict=True):
        pairs_of_corpora[part.corpus] += size
    header = {
        **made_of,
        "num_parts": num_parts,
        "has_repeated": bool(reasons),
        "pairs": sum(sizes),
        "pairs_of_corpora": pairs_of_corpora,
        "left_out": left_out,
        "overlap": _overlap(facts, text.evaluation),
        "checksums": [part.checksum for part in facts],
        "held_out": text.held_out,
    }
    write(LEFT_OUT, format_sample(spread(sample)).encode(errors="replace"))
    write(HEADER, json.dumps(header))


def _overlap(
    facts: Sequence[PartFacts], evaluation: EvaluationSets
) -> tuple[str, dict[str, tuple[int, int]]] | None:
    """Returns (digest of the evaluation sets, overlap with them).

    None if a part was written for other sets.
    """
    if any(part.evaluation != evaluation.digest for part in facts):
        return None
    found = [{i for part in facts for i in part.overlap[side]} for side in (0, 1)]
    return evaluation.digest, evaluation.count(found)


def _repeated_pairs(
    part: ArrowFile, codes: np.ndarray, reasons: Sequence[str], tokenizers: Sequence[Tokenizer]
) -> Iterator[LeftOutPair]:
    """Yields the first repeated pairs of a part of each reason, as their ids spell them."""
    facts, sides = facts_of(part), [part.lists(side) for side in SIDES]
    for code, reason in enumerate(reasons, 1):
        for index in np.flatnonzero(codes == code)[:SAMPLE_SIZE]:
            source, target = (
                tokenizer.decode(ids[offsets[index] : offsets[index + 1]])
                for tokenizer, (ids, offsets) in zip(tokenizers, sides, strict=True)
            )
            number = facts.first + int(part.numbers(INDEX)[index])
            yield left_out_pair(reason, facts.file, number, (source, target))


# ---- pairs that occur again


def hash_columns(pairs: Pairs, drop_duplicates: str) -> dict[str, np.ndarray]:
    """Returns the columns of hashes that the setting needs, [number of pairs] each.

    Spaces around a sentence make no difference.
    """
    sources, targets = ([pair[side].strip() for pair in pairs] for side in (0, 1))
    texts = {
        "source": sources,
        "target": targets,
        "pair": map("\n".join, zip(sources, targets, strict=True)),
    }
    return {f"{name}_hash": _hashes(texts[name]) for name in COMPARED[drop_duplicates]}


def _hashes(texts: Iterable[str]) -> np.ndarray:
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return np.frombuffer(b"".join(blake2b(e, digest_size=8).digest() for e in encoded), HASH)


def find_repeated(
    files: Sequence[pathlib.Path], sizes: Sequence[int], drop_duplicates: str
) -> list[np.ndarray]:
    """Returns, for each part, [number of pairs] uint8: 0 stays, n is left out for the n-th reason.

    files, sizes: of all parts, in order; a size is the number of pairs. Raises DamagedFileError.
    """
    codes, hashes = np.zeros(sum(sizes), np.uint8), np.empty(sum(sizes), HASH)
    bounds = np.cumsum(sizes)[:-1]
    for code, name in enumerate(COMPARED[drop_duplicates], 1):
        places = zip(np.split(hashes, bounds), files, strict=True)
        for place, file in counted(places, "looking for what occurs again", len(files)):
            place[:] = ArrowFile(file).numbers(f"{name}_hash")
        _mark_repeated(hashes, codes, code)
    return np.split(codes, bounds)


def _mark_repeated(hashes: np.ndarray, codes: np.ndarray, code: int) -> None:
    """Writes `code` where a pair that is not marked has the hash of one before it that is not.

    Hashes are sorted a bucket at a time, by their last four bits, which takes about 12 bytes a pair
    in all. For the hashes 7 5 7 7 with codes 1 0 0 0, the codes become 1 0 0 code.
    """
    last_bytes = hashes.view(np.uint8)[:: HASH.itemsize]  # as they are little-endian
    for bucket in range(NUM_BUCKETS):
        where = np.flatnonzero((last_bytes % NUM_BUCKETS == bucket) & (codes == 0))
        order = np.argsort(hashes[where], kind="stable")
        sorted_hashes = hashes[where[order]]
        codes[where[order[1:][sorted_hashes[1:] == sorted_hashes[:-1]]]] = code
