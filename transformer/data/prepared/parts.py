"""Writes a prepared corpus: its parts, and when all are there what follows from them together.

Parts are compared by hashes of their pairs, in the order of the text: what is left out does not
depend on who prepared which of them. Two different ones among n sentences have the same hash of 64
bits, so that a pair is left out by mistake, with a probability of at most n²/2^65: 4 in 100,000 for
36 million.
"""

import json
import pathlib
import zlib
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from etils import epath

from transformer.console import counted
from transformer.data.corpora.cleaning import (
    LEFT_OUT,
    SAMPLE_SIZE,
    KeepPairs,
    filter_by_length,
    format_sample,
    left_out_pair,
    no_pair_error,
)
from transformer.data.corpora.pair_files import Block, Pairs
from transformer.data.corpora.training_text import TrainingText
from transformer.data.files.text import Repairs
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

    Others may write the same ones at once. Raises ValueError if no pair is left to train on, and
    DamagedFileError.
    """
    write, files = Parts(folder).write, part_files(local_files(folder), num_parts)
    notes = [json.loads(ArrowFile(file).notes) for file in files]
    repairs, left_out = Repairs(), Counter[str]()
    for part in notes:
        repairs.add(part["repairs"])
        left_out.update(part["left_out"])
    left_out = repairs.named() + left_out
    sample = [tuple(pair) for part in notes for pair in part["sample"]]
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
    write(LEFT_OUT, format_sample(sample).encode(errors="replace"))
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
            place[:] = ArrowFile(file).numbers(f"{name}_hash")
        for bucket in range(NUM_BUCKETS):
            where = np.flatnonzero((last_bytes % NUM_BUCKETS == bucket) & (codes == 0))
            order = np.argsort(hashes[where], kind="stable")
            in_order = hashes[where[order]]
            codes[where[order[1:][in_order[1:] == in_order[:-1]]]] = code
    return np.split(codes, bounds)
