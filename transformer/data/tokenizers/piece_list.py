"""The tokenizer of imported translation models: SentencePiece splits, a list gives the ids.

Marian, M2M100, NLLB and mBART number the pieces otherwise than their SentencePiece models do, and
some have pieces that no text is split into, such as languages.
"""

import base64
import json
import re
from collections.abc import Iterable, Sequence
from typing import Self

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece import (
    Tokenizer,
    check_texts,
    read_sentencepiece,
    strip_control_ids,
)
from transformer.special_tokens import EOS, NUM_SPECIAL, UNK

# As Marian (>>de<<), M2M100 (__de__), and NLLB and mBART (deu_Latn, de_DE) write a language.
LANGUAGE = re.compile(r">>.+?<<|__[a-z]+__|[a-z]{2,3}_[A-Z][A-Za-z]+")
# A row of the table that stands for no text, where it is not among the first four.
CONTROL = re.compile(r"</?s>|<pad>|<mask>|<unused \d+>")


class PieceListTokenizer(Tokenizer):
    """A SentencePiece model and the list of all pieces, whose positions in it are their ids.

    With pieces ["<pad>", "<s>", "</s>", "<unk>", "▁a", "b", ">>de<<"] the text ">>de<< abc" has the
    ids 6 4 5 3 2. A language at the beginning of a text is one token if it is in the list.
    """

    suffix = ".pieces"
    line_breaks_are_text = False

    def __init__(self, model: bytes, pieces: Sequence[str], first: Sequence[str] = ()) -> None:
        """Takes a SentencePiece model with any control ids of its own.

        pieces: the piece of each id; the first four are the names of the control ids. first: pieces
        put before every text that does not begin with a language. Raises ValueError if the model is
        damaged, if two ids have the same piece, or if `first` is not in the list.
        """
        self.model, self._pieces, self.first = model, list(pieces), list(first)
        self._processor = read_sentencepiece(model)
        # No text becomes a control id, even if a piece or an unknown text is spelled like one.
        self._ids = {piece: i for i, piece in enumerate(self._pieces) if i >= NUM_SPECIAL}
        if len(self._ids) != len(self._pieces) - NUM_SPECIAL or not self._ids:
            raise ValueError(
                f"A list of pieces must hold {NUM_SPECIAL} control pieces and at least one more, "
                f"and none of them twice; import the model again."
            )
        if missing := [piece for piece in self.first if piece not in self._ids]:
            raise ValueError(
                f"The vocabulary has no piece {missing[0]!r} to begin texts with; import the model "
                f"with another language."
            )
        self._first_ids = [self._ids[piece] for piece in self.first]
        # As Hugging Face does: a text shows a Marian language, which is no control token there.
        self._hidden = {
            i
            for piece, i in self._ids.items()
            if self._spells_no_text(piece) and not piece.startswith(">>")
        }

    def _spells_no_text(self, piece: str) -> bool:
        is_special = LANGUAGE.fullmatch(piece) or CONTROL.fullmatch(piece)
        unknown = self._processor.unk_id()
        return bool(is_special) and self._processor.piece_to_id(piece) == unknown

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        starts, texts = [], []
        for sentence in sentences:
            text = SURROGATE.sub("\ufffd", sentence)
            language = LANGUAGE.match(text)
            if language and language[0] in self._ids:
                starts.append([self._ids[language[0]]])
                texts.append(text[language.end() :])
            else:
                starts.append(self._first_ids)
                texts.append(text)
        split = self._processor.encode(texts, out_type=str)
        return [
            [*start, *(self._ids.get(piece, UNK) for piece in pieces), EOS]
            for start, pieces in zip(starts, split, strict=True)
        ]

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS, without control ids and languages."""
        ids = [i for i in strip_control_ids(ids) if i != UNK and i not in self._hidden]
        text = self._processor.decode_pieces(self.pieces(ids))
        # The model leaves "▁" in pieces that it does not know: those of the other language.
        return text.replace("▁", " ").replace("\n", " ").replace("\r", " ").strip()

    def join_pieces(self, text: str) -> str:
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `to_bytes` wrote; raises ValueError for anything else."""
        try:
            content = json.loads(data)
            model = base64.b64decode(content["model"], validate=True)
            pieces, first = (_list_of_pieces(content[name]) for name in ("pieces", "first"))
        except (ValueError, RecursionError, TypeError, LookupError):
            raise ValueError(
                "This is not a SentencePiece model with a list of pieces; restore the file or "
                "import the model again."
            ) from None
        return cls(model, pieces, first)

    def to_bytes(self) -> bytes:
        """Writes JSON with a piece per line, and the model in base64."""
        model = base64.b64encode(self.model).decode()
        content = {"first": self.first, "pieces": self._pieces, "model": model}
        return json.dumps(content, indent=0).encode()


def _list_of_pieces(value: object) -> list[str]:
    """Returns `value`; raises ValueError unless it is a list of str."""
    if not isinstance(value, list) or not all(isinstance(piece, str) for piece in value):
        raise ValueError
    return value
