"""Tokenizers with a list of pieces: characters, ready-made pieces, those of imported models."""

import base64
import json
import operator
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece import (
    NO_TEXT,
    UNKNOWN,
    Tokenizer,
    check_texts,
    read_sentencepiece,
)
from transformer.special_tokens import OWN_IDS, SPECIAL_NAMES, SpecialIds

# As Marian (>>de<<), M2M100 (__de__), and NLLB and mBART (deu_Latn, de_DE) write a language.
LANGUAGE = re.compile(r">>.+?<<|__[a-z]+__|[a-z]{2,3}_[A-Z][A-Za-z]+")
# A row of the table that stands for no text.
CONTROL = re.compile(r"</?s>|<pad>|<mask>|<unused \d+>")


class ListTokenizer(Tokenizer):
    """A list of pieces, whose places in it are their ids. A subclass splits text and joins it."""

    def __init__(self, pieces: Iterable[str], special: SpecialIds = OWN_IDS) -> None:
        """Takes the piece of each id. Raises ValueError if there is none, or one of them twice."""
        self._pieces, self.special = list(pieces), special
        self.vocab_size = len(self._pieces)
        # No text becomes a control id, even if a piece is spelled like one.
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i not in special}
        if not self._ids or len(self._ids) < len(special.others(self.vocab_size)):
            raise ValueError("A vocabulary must hold at least one piece, and none of them twice.")

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        ids_of, unk, eos = self._ids.get, self.special.unk, self.special.eos
        split = self._split(sentences)
        return [[*(ids_of(piece, unk) for piece in pieces), eos] for pieces in split]

    def _split(self, sentences: Sequence[str]) -> Iterable[Iterable[str]]:
        """Returns the pieces of each sentence."""
        raise NotImplementedError

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]


class CharacterTokenizer(ListTokenizer):
    """Every character of the training text is a piece, spaces and line breaks too.

    Text of known characters comes back exactly; a new character becomes UNK, and UNK U+FFFD.
    """

    suffix = ".characters"

    def __init__(self, characters: Iterable[str]) -> None:
        super().__init__([*SPECIAL_NAMES, *characters])

    @classmethod
    def train(cls, sentences: Iterable[str]) -> Self:
        """Takes every character of the text, in the order of Unicode."""
        characters = {UNKNOWN if SURROGATE.match(c) else c for c in set[str]().union(*sentences)}
        if not characters:
            raise ValueError(NO_TEXT)
        return cls(sorted(characters))

    def _split(self, sentences: Sequence[str]) -> Iterable[Iterable[str]]:
        return sentences

    def decode(self, ids: Iterable[int]) -> str:
        pieces = self.pieces(self.without_control(ids))
        return "".join(piece if len(piece) == 1 else UNKNOWN for piece in pieces)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        return cls(json.loads(data))

    def to_bytes(self) -> bytes:
        """Writes a JSON list with one string per line: a character may itself be a line break."""
        return json.dumps([*self._ids], indent=0).encode()


class PiecesTokenizer(ListTokenizer):
    """For text whose pieces are already separated by spaces; its pieces are the vocabulary.

    `joiner` at the end of a piece says that the next one continues the word (subword-nmt's "@@").
    """

    suffix = ".vocab"

    def __init__(self, vocabulary: Iterable[str], joiner: str) -> None:
        super().__init__([*SPECIAL_NAMES, *vocabulary])
        self.joiner = joiner

    @classmethod
    def train(cls, sentences: Iterable[str], joiner: str) -> Self:
        """Takes every piece of the text, the frequent ones first."""
        counts = Counter(piece for sentence in sentences for piece in sentence.split())
        if not counts:
            raise ValueError(NO_TEXT)
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece)), joiner)

    def _split(self, sentences: Sequence[str]) -> Iterable[Iterable[str]]:
        return map(str.split, sentences)

    def decode(self, ids: Iterable[int]) -> str:
        return self.join_pieces(" ".join(self.pieces(self.without_control(ids))))

    def join_pieces(self, text: str) -> str:
        """Joins pieces to words: "a@@ b c" becomes "ab c"."""
        text = f"{text} ".replace(f"{self.joiner} ", "") if self.joiner else text
        return text.strip()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        joiner, *vocabulary = data.decode().split("\n")
        return cls(vocabulary, joiner)

    def to_bytes(self) -> bytes:
        """Writes the joiner and then the pieces, one per line."""
        return "\n".join([self.joiner, *self._ids]).encode()


class PieceListTokenizer(ListTokenizer):
    """A SentencePiece model that splits text, and a list that gives the ids: of imported models.

    Marian, M2M100, NLLB and mBART number the pieces otherwise than their SentencePiece models do,
    and a language at the beginning of a text is one of them. With pieces ["<pad>", "<s>", "</s>",
    "<unk>", "▁a", "b", ">>de<<"] the text ">>de<< abc" has the ids 6 4 5 3 2.
    """

    suffix = ".pieces"

    def __init__(
        self,
        model: bytes,
        pieces: Sequence[str],
        first: Sequence[str] = (),
        special: SpecialIds = OWN_IDS,
    ) -> None:
        """Takes a SentencePiece model, whose own control ids count for nothing, and the list.

        first: pieces put before every text that does not begin with a language. Raises ValueError
        if the model is damaged, if two ids have the same piece, or if `first` is not in the list.
        """
        super().__init__(pieces, special)
        self.model, self.first = model, list(first)
        self._processor = read_sentencepiece(model)
        if missing := [piece for piece in self.first if piece not in self._ids]:
            raise ValueError(
                f"The vocabulary has no piece {missing[0]!r} to begin texts with; import the model "
                f"with another language."
            )
        # As Hugging Face does: a text shows a Marian language, which is no control token there.
        known, unknown = self._processor.piece_to_id, self._processor.unk_id()
        names = [p for p in self._ids if LANGUAGE.fullmatch(p) or CONTROL.fullmatch(p)]
        hidden = [p for p in names if known(p) == unknown and not p.startswith(">>")]
        self._hidden = {special.unk, *map(self._ids.__getitem__, hidden)}

    def _split(self, sentences: Sequence[str]) -> Iterable[Iterable[str]]:
        starts, texts = [], []
        for sentence in sentences:
            text, start = SURROGATE.sub(UNKNOWN, sentence), self.first
            language = LANGUAGE.match(text)
            if language and language[0] in self._ids:
                text, start = text[language.end() :], [language[0]]
            starts.append(start)
            texts.append(text)
        return map(operator.add, starts, self._processor.encode(texts, out_type=str))

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS, without control ids and languages."""
        pieces = self.pieces(i for i in self.without_control(ids) if i not in self._hidden)
        # The model leaves "▁" in pieces that it does not know: those of the other language.
        text = self._processor.decode_pieces(pieces)
        return text.replace("▁", " ").replace("\n", " ").replace("\r", " ").strip()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        content = json.loads(data)
        special = SpecialIds(*map(int, content.get("special", OWN_IDS)))
        return cls(base64.b64decode(content["model"]), content["pieces"], content["first"], special)

    def to_bytes(self) -> bytes:
        """Writes JSON with a piece per line, and the model in base64."""
        model = base64.b64encode(self.model).decode()
        lists = {"special": self.special, "first": self.first, "pieces": self._pieces}
        return json.dumps(lists | {"model": model}, indent=0).encode()
