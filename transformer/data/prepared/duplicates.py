"""Leaves out pairs of a prepared corpus that occur in it before; the first one stays.

Of each pair, a hash of 64 bits is kept with its part, and the parts are compared in the order of
the text: what is left out does not depend on who prepared which of them. Two different ones among n
sentences have the same hash, so that a pair is left out by mistake, with a probability of at most
n²/2^65: 4 in 100,000 for 36 million.
"""

import pathlib
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b

import numpy as np

from transformer.console import counted
from transformer.data.pair_blocks import Pairs
from transformer.data.prepared.arrow_files import ArrowFile

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
