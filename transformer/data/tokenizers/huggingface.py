"""The tokenizers of imported BERT and GPT-2 models, and byte-level BPE that is learnt here.

They are files of the library `tokenizers`, with the ids that they were published with.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, Self

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece import UNKNOWN, Tokenizer, check_texts
from transformer.optional_libraries import require
from transformer.special_tokens import NUM_SPECIAL, OWN_IDS, SPECIAL_NAMES, SpecialIds

END = "<|endoftext|>"  # of GPT-2
FEWEST = 256 + NUM_SPECIAL  # tokens of byte-level BPE: every byte is one
IDS = "special_ids"  # in our files, which are those of the library but for this


def parse_tokenizer(text: str) -> Any:
    """Returns the `tokenizers.Tokenizer` of a tokenizer.json; raises ValueError for other text."""
    library = require("tokenizers")
    try:
        return library.Tokenizer.from_str(text)
    except Exception:  # the library raises no other class
        raise ValueError("This is not a tokenizer.json, or only a part of one.") from None


class HuggingFaceTokenizer(Tokenizer):
    """WordPiece or byte-level BPE; text: of a tokenizer.json.

    Texts get the beginning that the file gives them (BERT: [CLS]) and end with EOS. "[SEP]" in a
    text is text: Hugging Face would take it for the end.
    """

    suffix = ".json"

    def __init__(self, text: str, special: SpecialIds = OWN_IDS) -> None:
        """Raises ValueError if anything but BOS stands before a text, or but EOS behind it."""
        self.text, self.special, self._tokenizer = text, special, parse_tokenizer(text)
        self._tokenizer.encode_special_tokens = True  # as text
        self.vocab_size = 1 + max(self._tokenizer.get_vocab().values(), default=-1)
        added = self._tokenizer.encode("").ids
        if added not in ([], [special.eos], [special.bos, special.eos]):
            raise ValueError(
                f"A tokenizer.json must put none but {special.bos} before a text and {special.eos} "
                f"behind it."
            )
        self._start = added[:-1]
        self.line_breaks_are_text = "\n" in self.decode(self.encode(["a\nb"])[0])

    def __reduce__(self) -> tuple[Any, ...]:
        """For worker processes: the library's own pickles take control tokens in a text as such."""
        return type(self), (self.text, self.special)

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        texts = [SURROGATE.sub(UNKNOWN, sentence) for sentence in sentences]
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [[*self._start, *text.ids, self.special.eos] for text in encoded]

    def decode(self, ids: Iterable[int]) -> str:
        ids = [i for i in self.without_control(ids) if i != self.special.mask]
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._tokenizer.id_to_token(int(i)) for i in ids]

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        content = json.loads(data)
        special = SpecialIds(*map(int, content.pop(IDS, OWN_IDS)))
        return cls(json.dumps(content, ensure_ascii=False), special)

    def to_bytes(self) -> bytes:
        content = {IDS: self.special, **json.loads(self.text)}
        return json.dumps(content, ensure_ascii=False).encode()


def train_byte_level(texts: Sequence[str], vocab_size: int) -> HuggingFaceTokenizer:
    """Learns a byte-level BPE vocabulary of at most `vocab_size` tokens from texts, as GPT-2's.

    Raises ValueError if the bytes alone are more, or if `tokenizers` is not installed.
    """
    if vocab_size < FEWEST:
        raise ValueError(
            f"tokenizer.vocab_size ({vocab_size}) must be at least {FEWEST} with "
            f"tokenizer.kind=byte_level: every byte is a token."
        )
    library = require("tokenizers")
    tokenizer = byte_level(library.models.BPE())
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END if name == "</s>" else name for name in SPECIAL_NAMES],
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return HuggingFaceTokenizer(tokenizer.to_str())


def byte_level(model: Any, *, add_prefix_space: bool = False) -> Any:
    """Returns the tokenizer of the library that splits text as GPT-2 does, with a model of BPE."""
    library = require("tokenizers")
    tokenizer = library.Tokenizer(model)
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    tokenizer.decoder = library.decoders.ByteLevel()
    return tokenizer
