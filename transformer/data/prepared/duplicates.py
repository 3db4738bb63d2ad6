"""Leaves out pairs of a prepared corpus that occur in it before; the first one stays.

Of each pair, a hash of 64 bits is kept with its part, and the parts are compared in the order of
the text: what is left out does not depend on who prepared which of them. Two different ones among n
sentences have the same hash, so that a pair is left out by mistake, with a probability of at most
n²/2^65: 4 in 100,000 for 36 million.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from etils import epath

from transformer.console import counted
from transformer.data.left_out import LeftOutPair, choose, sample_of
from transformer.data.prepared.hashes import HASH, REASONS
from transformer.data.prepared.parts import INDICES, PartFacts, read_part

NUM_BUCKETS = 16  # which are sorted one after another, so that little memory is needed
Decode = Callable[[int, np.ndarray], str]  # (side, ids) to a sentence


class Selection(NamedTuple):
    """The pairs of each part that stay.

    facts: of the parts, of these pairs alone. stays: bool, [number of pairs] of each part, or None
    if all of them stay. sample: some of the others.
    """

    facts: list[PartFacts]
    stays: list[np.ndarray] | None
    sample: list[LeftOutPair]


def leave_out_repeated(
    parts: epath.Path, facts: list[PartFacts], drop_duplicates: str, decode: Decode
) -> Selection:
    """Returns the pairs that stay; raises DamagedPartError.

    decode: of the tokenizers, as the parts hold no text.
    """
    reasons = REASONS[drop_duplicates]
    if not reasons:
        return Selection(facts, None, [])
    # [number of pairs] uint8: 0 stays, 1 is left out for the first reason, 2 for the second
    codes = np.zeros(sum(part.num_pairs for part in facts), np.uint8)
    for code, name in enumerate(reasons, 1):
        _mark_repeated(_join(parts, facts, name), codes, code)
    of_parts = np.split(codes, np.cumsum([part.num_pairs for part in facts])[:-1])
    smaller = [
        _facts_of_rest(parts, number, part, of_part, list(reasons.values()))
        for number, (part, of_part) in enumerate(zip(facts, of_parts, strict=True))
    ]
    sample = [
        pair
        for code, reason in enumerate(reasons.values(), 1)
        for pair in _sample(parts, facts, [of == code for of in of_parts], reason, decode)
    ]
    return Selection(smaller, [of_part == 0 for of_part in of_parts], sample)


def _join(parts: epath.Path, facts: Sequence[PartFacts], name: str) -> np.ndarray:
    """Returns an array of hashes of all parts, one after another."""
    hashes = np.empty(sum(part.num_pairs for part in facts), HASH)
    end = 0
    for number in counted(range(len(facts)), "looking for what occurs again", len(facts)):
        (array,) = read_part(parts, number, [name])
        start, end = end, end + len(array)
        hashes[start:end] = array
    return hashes


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


def _facts_of_rest(
    parts: epath.Path, number: int, part: PartFacts, codes: np.ndarray, reasons: list[str]
) -> PartFacts:
    """Returns the facts of a part without the pairs that are marked."""
    counts = np.bincount(codes, minlength=len(reasons) + 1).tolist()
    if counts[0] == part.num_pairs:
        return part
    source, target = (
        int(lengths[codes == 0].sum(dtype=np.int64))
        for lengths in read_part(parts, number, ["source_lengths", "target_lengths"])
    )
    repeated = {reason: count for reason, count in zip(reasons, counts[1:], strict=True) if count}
    return part._replace(
        num_pairs=counts[0], num_ids=(source, target), unfit={**part.unfit, **repeated}
    )


def _sample(
    parts: epath.Path,
    facts: Sequence[PartFacts],
    are_marked: Sequence[np.ndarray],
    reason: str,
    decode: Decode,
) -> Iterator[LeftOutPair]:
    """Yields some of the pairs that are marked."""
    found: list[tuple[int, int, int]] = []  # (part, index in it, index in its block)
    for number, (part, is_marked) in enumerate(zip(facts, are_marked, strict=True)):
        if is_marked.any():
            (indices,) = read_part(parts, number, [INDICES])
            where = np.flatnonzero(is_marked)
            for i in where[choose(indices[where].astype(np.int64) + part.first)].tolist():
                found.append((number, i, int(indices[i])))
    lines = np.array([facts[number].first + index for number, _, index in found], np.int64)
    for number, i, index in (found[which] for which in choose(lines)):
        sides = _sentences(parts, number, i, decode)
        yield from sample_of(
            {index: sides}, facts[number].name, facts[number].first, {reason: [index]}
        )


def _sentences(parts: epath.Path, number: int, index: int, decode: Decode) -> tuple[str, str]:
    """Returns the source and the target of a pair of a part."""
    names = ["source_ids", "source_lengths", "target_ids", "target_lengths"]
    arrays = list(read_part(parts, number, names))
    sentences = []
    for side, (ids, lengths) in enumerate((arrays[:2], arrays[2:])):
        start = int(lengths[:index].sum(dtype=np.int64))
        sentences.append(decode(side, ids[start : start + int(lengths[index])]))
    return sentences[0], sentences[1]
