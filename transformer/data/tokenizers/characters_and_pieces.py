"""Tokenizers without a learnt model: one character per piece, or text that is split already."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece import Tokenizer, check_texts, strip_control_ids
from transformer.special_tokens import EOS, NUM_SPECIAL, SPECIAL_NAMES, UNK

UNKNOWN = "\ufffd"  # Unicode's replacement character


class CharacterTokenizer(Tokenizer):
    """Every character of the training text is a piece, spaces and line breaks too.

    Text of known characters comes back exactly; a new character becomes UNK, and UNK U+FFFD.
    """

    suffix = ".characters"
    line_breaks_are_text = False

    def __init__(self, characters: Iterable[str]) -> None:
        """Raises ValueError if there is no character, or one of them twice."""
        self._characters = list(characters)
        if not self._characters or len({*self._characters}) != len(self._characters):
            raise ValueError(
                "A vocabulary must hold at least one character, and none of them twice; restore "
                "the file or train it anew."
            )
        self._ids = {character: i for i, character in enumerate(self._characters, NUM_SPECIAL)}

    @classmethod
    def train(cls, sentences: Iterable[str]) -> Self:
        """Takes every character of the text, in the order of Unicode."""
        found = {UNKNOWN if SURROGATE.match(c) else c for c in set[str]().union(*sentences)}
        if not found:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        return cls(sorted(found))

    @property
    def vocab_size(self) -> int:
        return len(self._characters) + NUM_SPECIAL

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        return [[*(self._ids.get(character, UNK) for character in s), EOS] for s in sentences]

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(UNKNOWN if i == UNK else self._name(i) for i in strip_control_ids(ids))

    def join_pieces(self, text: str) -> str:
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._name(i) for i in ids]

    def _name(self, i: int) -> str:
        return SPECIAL_NAMES[i] if i < NUM_SPECIAL else self._characters[i - NUM_SPECIAL]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `to_bytes` wrote; raises ValueError for anything else."""
        try:
            characters = json.loads(data)
        except (ValueError, RecursionError):
            characters = None
        if not isinstance(characters, list) or not all(map(_is_character, characters)):
            raise ValueError("This is not a list of characters; restore the file or train it anew.")
        return cls(characters)

    def to_bytes(self) -> bytes:
        """Writes a JSON list with one string per line: a character may itself be a line break."""
        return json.dumps(self._characters, indent=0).encode()


def _is_character(value: object) -> bool:
    return isinstance(value, str) and len(value) == 1


class PiecesTokenizer(Tokenizer):
    """For text whose pieces are already separated by spaces; its pieces are the vocabulary.

    `joiner` at the end of a piece says that the next one continues the word (subword-nmt's "@@").
    """

    suffix = ".vocab"
    line_breaks_are_text = False

    def __init__(self, vocabulary: Iterable[str], joiner: str) -> None:
        """Raises ValueError if there is no piece, or one of them twice."""
        self._vocabulary, self.joiner = list(vocabulary), joiner
        self._ids = {piece: i + NUM_SPECIAL for i, piece in enumerate(self._vocabulary)}
        if not self._ids or len(self._ids) != len(self._vocabulary):
            raise ValueError(
                "A vocabulary must hold at least one piece, and none of them twice; restore the "
                "file or train it anew."
            )

    @classmethod
    def train(cls, sentences: Iterable[str], joiner: str) -> Self:
        """Takes every piece of the text, the frequent ones first."""
        counts = Counter(piece for sentence in sentences for piece in sentence.split())
        if not counts:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece)), joiner)

    @property
    def vocab_size(self) -> int:
        return len(self._vocabulary) + NUM_SPECIAL

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        return [[*(self._ids.get(piece, UNK) for piece in s.split()), EOS] for s in sentences]

    def decode(self, ids: Iterable[int]) -> str:
        return self.join_pieces(" ".join(self.pieces(strip_control_ids(ids))))

    def join_pieces(self, text: str) -> str:
        """Joins pieces to words: "a@@ b c" becomes "ab c"."""
        text = f"{text} ".replace(f"{self.joiner} ", "") if self.joiner else text
        return text.strip()

    def pieces(self, ids: Iterable[int]) -> list[str]:
        names, first = self._vocabulary, NUM_SPECIAL
        return [SPECIAL_NAMES[i] if i < first else names[i - first] for i in ids]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `to_bytes` wrote; raises ValueError for anything else."""
        try:
            joiner, *vocabulary = data.decode().split("\n")
        except UnicodeDecodeError:
            raise ValueError("This is not a vocabulary: it is not UTF-8.") from None
        return cls(vocabulary, joiner)

    def to_bytes(self) -> bytes:
        """Writes the joiner and then the pieces, one per line."""
        return "\n".join([self.joiner, *self._vocabulary]).encode()
