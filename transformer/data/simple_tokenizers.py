"""Text to ids and back, a character at a time."""

import json
from collections import Counter

from transformer.data.tokenizer import SURROGATE, strip_control_ids
from transformer.special_tokens import EOS, NUM_SPECIAL, SPECIAL_NAMES, UNK

UNKNOWN = "\ufffd"  # Unicode's sign for a character that could not be told


class CharacterTokenizer:
    """Every character of the training text is a piece, spaces and line breaks too.

    Text of known characters comes back exactly; a new character becomes UNK, and that U+FFFD.
    """

    suffix = ".characters"

    def __init__(self, characters):
        self._characters = list(characters)
        if not self._characters or len({*self._characters}) != len(self._characters):
            raise ValueError(
                "A vocabulary must hold at least one character, and none of them twice; restore "
                "the file or train it anew."
            )
        self._ids = {character: i for i, character in enumerate(self._characters, NUM_SPECIAL)}

    @classmethod
    def train(cls, sentences):
        """Every character of the text, in the order of Unicode."""
        found = {UNKNOWN if SURROGATE.match(c) else c for c in set().union(*sentences)}
        if not found:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        return cls(sorted(found))

    @property
    def vocab_size(self):
        return len(self._characters) + NUM_SPECIAL

    def encode(self, sentences):
        """list of str -> list of lists of ids, each ending with EOS; new characters become UNK."""
        return [[*(self._ids.get(character, UNK) for character in s), EOS] for s in sentences]

    def decode(self, ids):
        """Ids up to the first EOS -> str."""
        return "".join(UNKNOWN if i == UNK else self._name(i) for i in strip_control_ids(ids))

    def join(self, text):
        """Text as a reader sees it, to be compared with what `decode` gives."""
        return text

    def pieces(self, ids):
        """Ids -> the pieces as strings, for pictures: control ids have more than one letter."""
        return [self._name(i) for i in ids]

    def _name(self, i):
        return SPECIAL_NAMES[i] if i < NUM_SPECIAL else self._characters[i - NUM_SPECIAL]

    @classmethod
    def from_bytes(cls, data):
        """Reads what `to_bytes` wrote."""
        try:
            characters = json.loads(data)
        except (ValueError, RecursionError):
            characters = None
        if not isinstance(characters, list) or not all(map(_is_character, characters)):
            raise ValueError("This is not a list of characters; restore the file or train it anew.")
        return cls(characters)

    def to_bytes(self):
        """A list of strings as JSON, one a line: no character can be taken for a line break."""
        return json.dumps(self._characters, indent=0).encode()


def _is_character(value):
    return isinstance(value, str) and len(value) == 1


class PiecesTokenizer:
    """Text that is already split by spaces; the vocabulary is that of the training text.

    `joiner` at the end of a piece says that the next one continues the word (subword-nmt's "@@").
    """

    suffix = ".vocab"

    def __init__(self, vocabulary, joiner):
        self._vocabulary, self._joiner = list(vocabulary), joiner
        self._ids = {piece: i + NUM_SPECIAL for i, piece in enumerate(self._vocabulary)}
        if not self._ids or len(self._ids) != len(self._vocabulary):
            raise ValueError(
                "A vocabulary must hold at least one piece, and none of them twice; restore the "
                "file or train it anew."
            )

    @classmethod
    def train(cls, sentences, joiner):
        """Every piece of the text, the frequent ones first."""
        counts = Counter(piece for sentence in sentences for piece in sentence.split())
        if not counts:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece)), joiner)

    @property
    def vocab_size(self):
        return len(self._vocabulary) + NUM_SPECIAL

    def encode(self, sentences):
        """list of str -> list of lists of ids, each ending with EOS; new pieces become UNK."""
        return [[*(self._ids.get(piece, UNK) for piece in s.split()), EOS] for s in sentences]

    def decode(self, ids):
        """Ids up to the first EOS -> str, pieces joined to words."""
        return self.join(" ".join(self.pieces(strip_control_ids(ids))))

    def join(self, text):
        """Pieces with spaces between -> words."""
        text = f"{text} ".replace(f"{self._joiner} ", "") if self._joiner else text
        return text.strip()

    def pieces(self, ids):
        """Ids -> the pieces as strings."""
        names, first = self._vocabulary, NUM_SPECIAL
        return [SPECIAL_NAMES[i] if i < first else names[i - first] for i in ids]

    @classmethod
    def from_bytes(cls, data):
        """Reads what `to_bytes` wrote: the joiner and the pieces, one a line."""
        try:
            joiner, *vocabulary = data.decode().split("\n")
        except UnicodeDecodeError:
            raise ValueError("This is not a vocabulary: it is not UTF-8.") from None
        return cls(vocabulary, joiner)

    def to_bytes(self):
        return "\n".join([self._joiner, *self._vocabulary]).encode()
