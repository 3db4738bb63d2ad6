"""A sentence pair of the embedded corpus, and the key by which it is split."""

import dataclasses
import hashlib
import unicodedata


@dataclasses.dataclass(frozen=True)
class Pair:
    """`content` names what the pair is about; every key in it is in one split only."""

    kind: str
    source: str
    target: str
    content: tuple[str, ...]


def unit_hash(text):
    """Returns a number in [0, 1) that depends on the text alone, on every machine."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


# Soft hyphen, zero-width space, direction marks, word joiner: CLDR has them in names.
INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200e\u200f\u2060"))


def plain_text(text):
    """Turns no-break, narrow and thin spaces into plain ones, and drops invisible characters."""
    visible = text.translate(INVISIBLE)
    spaced = "".join(" " if unicodedata.category(c) == "Zs" else c for c in visible)
    return " ".join(spaced.split())
