"""Adds errors to the source of each pair, from which a model learns spelling correction.

The pairs are a plain text with itself, so that any text will do. How a sentence is damaged depends
on it alone: a test set is the same for every run, and a prepared corpus for every host.
"""

import unicodedata
from collections.abc import Callable

import numpy as np

from transformer.data.corpora.blocks import Block, Decoded

LETTERS_PER_ERROR = 12  # about one word in three, in English


def misspell(text: str) -> str:
    """Returns the text with an error for about every twelfth letter.

    An error exchanges a letter with the next one of its word (the last one is left out instead),
    leaves it out, doubles it, or replaces it by another one of the text: "the house" becomes
    "hte house", "th house", "thee house" or "uhe house".
    """
    rng = np.random.default_rng(np.frombuffer(text.encode(errors="replace"), np.uint8))
    alphabet = [letter for letter in text if letter.isalpha()]
    letters, damaged = list(reversed(text)), []  # the next one last: taking it costs the same
    while letters:
        letter = letters.pop()
        if not letter.isalpha() or rng.integers(LETTERS_PER_ERROR):
            damaged.append(letter)
            continue
        match rng.integers(4):
            case 0 if letters and letters[-1].isalpha():
                damaged += [letters.pop(), letter]
            case 1:
                damaged += [letter, letter]
            case 2:
                damaged.append(alphabet[rng.integers(len(alphabet))])
    return "".join(damaged)


def remove_accents(text: str) -> str:
    """Returns the text without the marks on its letters: "Müßig am Café" -> "Mußig am Cafe"."""
    letters = unicodedata.normalize("NFD", text)
    bare = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return unicodedata.normalize("NFC", bare)


DAMAGE: dict[str, Callable[[str], str]] = {"misspell": misspell, "remove_accents": remove_accents}


class NoisyBlock:
    """A block whose sources are damaged once they are decoded; noise: a key of `DAMAGE`."""

    def __init__(self, block: Block, noise: str) -> None:
        self.name, self.first = block.name, block.first
        self.num_pairs, self.share_read = block.num_pairs, block.share_read
        self.block, self.noise = block, noise

    def decode(self) -> Decoded:
        """Returns the pairs; raises what decoding the block raises."""
        pairs, repairs = self.block.decode()
        damage = DAMAGE[self.noise]
        return Decoded([(damage(source), target) for source, target in pairs], repairs)
