"""Hashes of sentences and pairs, by which those that occur again are found."""

from collections.abc import Callable, Iterable
from hashlib import blake2b

import numpy as np

from transformer.data.pair_blocks import Pairs

HASH = np.dtype("<u8")
REASONS = {  # by the array of hashes in which a pair occurs again, of each data.drop_duplicates
    "": {},
    "pair": {"pair_hashes": "a repeated pair"},
    "source": {"source_hashes": "a repeated source"},
    "target": {"target_hashes": "a repeated target"},
    "either": {"source_hashes": "a repeated source", "target_hashes": "a repeated target"},
}
HASHED: dict[str, Callable[[str, str], str]] = {
    "pair_hashes": lambda source, target: f"{source}\n{target}",
    "source_hashes": lambda source, _: source,
    "target_hashes": lambda _, target: target,
}


def hash_arrays(pairs: Pairs, drop_duplicates: str) -> dict[str, np.ndarray]:
    """Returns the arrays of hashes that the setting needs, [number of pairs] each.

    Spaces around a sentence make no difference.
    """
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    return {
        name: _hashes(HASHED[name](*pair) for pair in stripped) for name in REASONS[drop_duplicates]
    }


def _hashes(texts: Iterable[str]) -> np.ndarray:
    encoded = (text.encode("utf-8", "surrogatepass") for text in texts)
    return np.frombuffer(b"".join(blake2b(e, digest_size=8).digest() for e in encoded), HASH)
