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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.console import counted
from transformer.data.corpora.blocks import NumberedBlock, Pairs
from transformer.data.corpora.cleaning import (
    LEFT_OUT,
    Filtered,
    KeepPairs,
    KeptPairs,
    LeftOutPair,
    filter_by_length,
    format_sample,
    no_pair_error,
    sample_of,
    spread,
    spread_each,
)
from transformer.data.corpora.held_out import EvaluationSets, Overlap
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
REASONS = {  # by the column of hashes in which a pair occurs again, of each data.drop_duplicates
    "": {},
    "pair": {"pair_hash": "a repeated pair"},
    "source": {"source_hash": "a repeated source"},
    "target": {"target_hash": "a repeated target"},
    "either": {"source_hash": "a repeated source", "target_hash": "a repeated target"},
}
HASHED: dict[str, Callable[[str, str], str]] = {
    "pair_hash": lambda source, target: f"{source}\n{target}",
    "source_hash": lambda source, _: source,
    "target_hash": lambda _, target: target,
}


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
            _sentences_found(kept, fitting),
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


def _sentences_found(kept: KeptPairs, fitting: Filtered) -> tuple[list[int], list[int]]:
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
    _check(text.config, facts)
    sizes = [part.num_pairs for part in facts]
    left_out, sample = total_left_out(facts), [pair for part in facts for pair in part.sample]
    if reasons := list(REASONS[text.config.drop_duplicates].values()):
        codes = find_repeated(files, sizes, text.config.drop_duplicates)
        kept = [np.flatnonzero(part_codes == 0).astype(np.uint32) for part_codes in codes]
        sizes = [len(indices) for indices in kept]
        column = arrow_lists(np.concatenate(kept), np.array(sizes))
        write(KEPT, arrow_bytes({INDEX: column}))
        counts = np.bincount(np.concatenate(codes), minlength=len(reasons) + 1)[1:].tolist()
        left_out += Counter(dict(zip(reasons, counts, strict=True)))
        sample += _sample_of_repeated(files, codes, reasons, tokenizers)
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
    write(LEFT_OUT, format_sample(spread_each(sample)).encode(errors="replace"))
    write(HEADER, json.dumps(header))


def _check(data: DataConfig, facts: Sequence[PartFacts]) -> None:
    """Raises ValueError if no pair is left to train on."""
    unfit = sum((Counter(part.unfit) for part in facts), Counter[str]())
    if any(part.num_pairs for part in facts):
        return
    if not unfit:
        raise no_pair_error(data, total_left_out(facts))
    raise ValueError(
        f"No pair is left of {unfit.total()} ({dict(unfit)}); raise data.row_length or "
        f"data.max_length_ratio."
    )


def _overlap(facts: Sequence[PartFacts], evaluation: EvaluationSets) -> Overlap | None:
    """Returns the overlap with the evaluation sets; None if a part was written for other sets."""
    if any(part.evaluation != evaluation.digest for part in facts):
        return None
    source, target = ({i for part in facts for i in part.overlap[side]} for side in (0, 1))
    return evaluation.count([source, target])


def _sample_of_repeated(
    files: Sequence[pathlib.Path],
    codes: Sequence[np.ndarray],
    reasons: Sequence[str],
    tokenizers: Sequence[Tokenizer],
) -> Iterator[LeftOutPair]:
    """Yields some of the repeated pairs of each reason, as their ids spell them."""
    for code, reason in enumerate(reasons, 1):
        found = [spread(np.flatnonzero(part_codes == code).tolist()) for part_codes in codes]
        for number, index in spread([(n, i) for n, indices in enumerate(found) for i in indices]):
            part, pair = ArrowFile(files[number]), []
            for side, tokenizer in zip(SIDES, tokenizers, strict=True):
                ids, offsets = part.lists(side)
                pair.append(tokenizer.decode(ids[offsets[index] : offsets[index + 1]]))
            facts, (source, target) = facts_of(part), pair
            place = int(part.numbers(INDEX)[index])
            yield from sample_of(facts.name, facts.first, {reason: [(place, (source, target))]})


# ---- pairs that occur again


def hash_columns(pairs: Pairs, drop_duplicates: str) -> dict[str, np.ndarray]:
    """Returns the columns of hashes that the setting needs, [number of pairs] each.

    Spaces around a sentence make no difference.
    """
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    return {
        name: _hashes(HASHED[name](*pair) for pair in stripped) for name in REASONS[drop_duplicates]
    }


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
    for code, name in enumerate(REASONS[drop_duplicates], 1):
        places = zip(np.split(hashes, bounds), files, strict=True)
        for place, file in counted(places, "looking for what occurs again", len(files)):
            place[:] = ArrowFile(file).numbers(name)
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
