"""Control tokens: the ids that a vocabulary gives to what is no text.

They belong to the vocabulary. Models of other systems keep those that they were published with, so
nothing is renumbered on the way in or out. The ids travel in one direction:

    tokenizer.special  ->  data: where sentences end, what is masked
                       ->  model.special: the start of the decoder, the ends of the texts of a pair
                       ->  search: `SearchOptions.method`

A batch says by its segments and weights what is padding: it is filled with 0, whatever 0 means.
"""

from typing import NamedTuple

import numpy as np


class SpecialIds(NamedTuple):
    """The control ids of a vocabulary; the defaults are those of vocabularies learnt here.

    Several may be one: GPT-2 has a single control token, M2M100's decoder starts with EOS. pad:
    what fills plain arrays of ids up; -1 if the vocabulary has none. mask: stands for a hidden
    token; with byte fallback UNK has no other use.
    """

    pad: int = 0
    bos: int = 1
    eos: int = 2
    unk: int = 3
    mask: int = 3

    @property
    def silent(self) -> list[int]:
        """All but EOS: what may not continue a text."""
        return sorted({*self} - {self.eos, -1})

    def others(self, vocab_size: int) -> np.ndarray:
        """Returns all other ids of a vocabulary, in ascending order."""
        return np.setdiff1d(np.arange(vocab_size), self)


OWN_IDS = SpecialIds()
SPECIAL_NAMES = ("<pad>", "<s>", "</s>", "<unk>")
NUM_SPECIAL = len(SPECIAL_NAMES)  # of a vocabulary learnt here: no text produces an id below it
