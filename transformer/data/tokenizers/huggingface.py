"""The tokenizer of imported BERT and GPT-2 models: a file of the library `tokenizers`."""

from collections.abc import Iterable, Sequence
from typing import Any, Self

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece import Tokenizer, check_texts
from transformer.optional_libraries import require
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL


def parse_tokenizer(text: str) -> Any:
    """Returns the `tokenizers.Tokenizer` of a tokenizer.json; raises ValueError for other text."""
    library = require("tokenizers")
    try:
        return library.Tokenizer.from_str(text)
    except Exception:  # the library raises no other class
        raise ValueError(
            "This is not a tokenizer.json, or only a part of one; restore the file or import the "
            "model again."
        ) from None


class HuggingFaceTokenizer(Tokenizer):
    """WordPiece or byte-level BPE with our control ids; `tokenizers_json.renumber` makes it.

    Texts get the beginning that the file gives them (BERT: [CLS], which is BOS) and end with EOS.
    "[SEP]" in a text is text: Hugging Face would take it for the end.
    """

    suffix = ".json"

    def __init__(self, text: str) -> None:
        """Takes the content of a tokenizer.json; raises ValueError if its ids are not ours."""
        self._text, self._tokenizer = text, parse_tokenizer(text)
        self._tokenizer.encode_special_tokens = True  # as text
        added = self._tokenizer.encode("").ids
        names = self.pieces(range(NUM_SPECIAL)) if self.vocab_size > NUM_SPECIAL else [None]
        is_dense = {*self._tokenizer.get_vocab().values()} == {*range(self.vocab_size)}
        if not is_dense or added not in ([], [EOS], [BOS, EOS]) or self._makes_control_ids(names):
            raise ValueError(
                f"A tokenizer.json must keep the ids 0 to {NUM_SPECIAL - 1} for control tokens and "
                f"put none but {BOS} before a text and {EOS} behind it; import the model again."
            )
        self._start = added[:-1]
        self.line_breaks_are_text = "\n" in self.decode(self.encode(["a\nb"])[0])

    def _makes_control_ids(self, names: Sequence[str | None]) -> bool:
        encoded = (self._tokenizer.encode(name, add_special_tokens=False) for name in names if name)
        return None in names or any(
            min(text.ids, default=NUM_SPECIAL) < NUM_SPECIAL for text in encoded
        )

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        texts = [SURROGATE.sub("\ufffd", sentence) for sentence in sentences]
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [[*self._start, *text.ids, EOS] for text in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        ids = [i for i in self.without_control(ids) if i >= NUM_SPECIAL]
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def join_pieces(self, text: str) -> str:
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._tokenizer.id_to_token(int(i)) for i in ids]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Reads what `to_bytes` wrote; raises ValueError for anything else."""
        try:
            return cls(data.decode())
        except UnicodeDecodeError:
            raise ValueError("This is not a tokenizer.json: it is not UTF-8.") from None

    def to_bytes(self) -> bytes:
        return self._text.encode()
