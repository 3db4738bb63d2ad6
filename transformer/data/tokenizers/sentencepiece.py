"""What a tokenizer does, and the default one: SentencePiece BPE, trained on the corpus.

Every sentence ends with EOS. Ids below `NUM_SPECIAL` are control ids, which no text can produce.
Other tokenizers: `simple_tokenizers`, and `piece_list_tokenizer` of imported models.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, Self, cast

import numpy as np
import sentencepiece

from transformer.data.files.text import SURROGATE
from transformer.data.tokenizers.sentencepiece_ids import with_own_ids
from transformer.data.tokenizers.word_ids import WordIds, splits_by_word
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK

LONGEST_LINE = 16_384  # bytes of a line that a vocabulary is learnt from


class Tokenizer(Protocol):
    """Turns text into ids and back."""

    suffix: str  # the ending of the file that holds its vocabulary
    line_breaks_are_text: bool  # so that EOS ends a text of many lines, and not each line of it

    @property
    def vocab_size(self) -> int:
        """The number of ids, control ids included."""
        ...

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each sentence, EOS at the end; raises ValueError for a single str."""
        ...

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS, without control ids.

        Raises ValueError for the ids of several sentences.
        """
        ...

    def join_pieces(self, text: str) -> str:
        """Returns a line of the corpus as a reader sees it, to be compared with `decode`."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id as a string, for pictures."""
        ...

    def to_bytes(self) -> bytes:
        """Returns the vocabulary as the content of a file."""
        ...

    def __repr__(self) -> str:
        """As "SentencePieceTokenizer(8,000 pieces)", of a class that inherits from this one."""
        return f"{type(self).__name__}({self.vocab_size:,} pieces)"


def check_texts(texts: object, name: str) -> None:
    """Raises ValueError unless `texts` is a sequence of str, whose place is `name` in a call."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} takes a list of sentences, not a single one: give [text].")
    for index, text in enumerate(cast(Iterable[object], texts)):
        if not isinstance(text, str):
            raise _wrong_text(name, index, text)


def checked_texts(texts: Iterable[str], name: str) -> Iterable[str]:
    """Returns `texts`, checked by `check_texts`: a list now, any other iterable as it is read."""
    if isinstance(texts, str | bytes | list | tuple):
        check_texts(texts, name)
        return texts

    def check_each() -> Iterator[str]:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise _wrong_text(name, index, text)
            yield text

    return check_each()


def _wrong_text(name: str, index: int, text: object) -> ValueError:
    hint = ": decode it first" if isinstance(text, bytes) else ""
    return ValueError(f"{name} takes sentences of type str, but number {index} is {text!r}{hint}.")


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model, whose control tokens get our ids (see `with_own_ids`).

    One that is trained here has byte fallback, so an id for every character, and gives back any
    line except for white space: runs of spaces collapse, leading and trailing spaces are dropped,
    and "▁" is treated as a space.
    """

    suffix = ".model"
    line_breaks_are_text = False

    def __init__(self, model: bytes) -> None:
        """Takes a model with any control ids; raises ValueError if it is damaged."""
        self.model = with_own_ids(model, read_sentencepiece(model))
        self._processor = read_sentencepiece(self.model)
        self.words = WordIds(self._processor) if splits_by_word(self.model) else None

    @classmethod
    def train(cls, sentences: Iterable[str], vocab_size: int, tags: Sequence[str] = ()) -> Self:
        """Trains a BPE model of `vocab_size` pieces; the same sentences give the same bytes.

        tags: words that are a piece of their own, at the beginning of a text or behind a space.
        Raises ValueError if the text is empty or allows no vocabulary of this size.
        """
        model = io.BytesIO()
        sentences = [s for s in map(_clean, sentences) if s.strip()]
        if not sentences:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_writer=model, vocab_size=vocab_size,
                model_type="bpe", byte_fallback=True, character_coverage=0.9999,
                normalization_rule_name="identity", num_threads=1, minloglevel=2,
                pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK,
                max_sentence_length=LONGEST_LINE,
                user_defined_symbols=[f"▁{tag}" for tag in tags],
            )  # fmt: skip
        except RuntimeError as error:
            raise ValueError(_explain(error, vocab_size)) from None
        return cls(model.getvalue())

    @property
    def vocab_size(self) -> int:
        return self._processor.get_piece_size()

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        if self.words is None:
            return [[*ids, EOS] for ids in self._processor.encode([_clean(s) for s in sentences])]
        flat, lengths = self.words.encode([_clean(s) for s in sentences])
        ids, ends = flat.tolist(), np.cumsum(lengths).tolist()
        return [ids[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def decode(self, ids: Iterable[int]) -> str:
        text = self._processor.decode(strip_control_ids(ids))
        return text.replace("\n", " ").replace("\r", " ")  # byte pieces can spell a line break

    def join_pieces(self, text: str) -> str:
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def to_bytes(self) -> bytes:
        return self.model


def read_sentencepiece(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Returns the processor of a SentencePiece model; raises ValueError if that is damaged."""
    if not model:
        raise ValueError("The SentencePiece model is empty; restore the file or train it anew.")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        raise ValueError(
            "This is not a SentencePiece model, or only a part of one; restore the file or "
            "train it anew."
        ) from None


def encode_flat(tokenizer: Tokenizer, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Returns what `tokenizer.encode` does as (the ids of all sentences, how many each has)."""
    if isinstance(tokenizer, SentencePieceTokenizer) and tokenizer.words is not None:
        return tokenizer.words.encode([_clean(sentence) for sentence in sentences])
    encoded = tokenizer.encode(sentences)
    flat = np.fromiter(chain.from_iterable(encoded), np.int32)
    return flat, np.array([len(ids) for ids in encoded], np.int64)


def strip_control_ids(ids: Iterable[int]) -> list[int]:
    """Returns the ids before the first EOS, without PAD and BOS; refuses those of a batch."""
    try:
        ids = [int(i) for i in ids]
    except TypeError:
        raise ValueError(
            "decode takes the ids of one sentence; for several, call it for each: "
            "[tokenizer.decode(ids) for ids in batch]."
        ) from None
    ids = ids[: ids.index(EOS)] if EOS in ids else ids
    return [i for i in ids if i not in (PAD, BOS)]


def _clean(text: str) -> str:
    """Replaces what SentencePiece cannot take: lone surrogates, and its own sign for a space."""
    if not text.isascii():
        text = SURROGATE.sub("\ufffd", text).replace("▁", " ")
    return text


def _explain(error: RuntimeError, vocab_size: int) -> str:
    """Returns why SentencePiece could not make a vocabulary, in terms of our settings."""
    text = str(error)
    if largest := re.search(r"too high.*<= (\d+)", text):
        return (
            f"tokenizer.vocab_size={vocab_size} is more than this corpus can give; the largest "
            f"possible is {largest[1]}."
        )
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", text):
        return (
            f"tokenizer.vocab_size={vocab_size} is less than the characters of this corpus, 256 "
            f"bytes and {NUM_SPECIAL} control pieces need; the smallest possible is {smallest[1]}."
        )
    if "sentences_.empty()" in text:
        return f"A tokenizer cannot be trained: every line is longer than {LONGEST_LINE} bytes."
    return f"SentencePiece could not train a vocabulary of {vocab_size}: {' '.join(text.split())}"
