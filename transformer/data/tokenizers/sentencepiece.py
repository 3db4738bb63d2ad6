"""What a tokenizer does, and the default one: SentencePiece BPE, trained on the corpus.

Every sentence ends with EOS. No text can produce a control id of `special` but UNK.
Other tokenizers: `lists`, and `huggingface`.
"""

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, Self

import numpy as np
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from transformer.data.files.text import SURROGATE
from transformer.special_tokens import OWN_IDS, SpecialIds

LONGEST_LINE = 16_384  # bytes of a line that a vocabulary is learnt from
MOST_WORDS = 2**18  # that are remembered: the first, among which are the frequent ones
LONGEST_WORD = 32  # characters of a word that is remembered: Japanese has no spaces
UNKNOWN = "\ufffd"  # what stands in texts for a character that cannot be told
NO_TEXT = "A tokenizer cannot be trained: the corpus holds no text."


class Tokenizer(Protocol):
    """Turns text into ids and back."""

    suffix: str  # the ending of the file that holds its vocabulary
    line_breaks_are_text: bool = False  # whether EOS ends a text of many lines, not each line of it
    special: SpecialIds = OWN_IDS
    vocab_size: int  # the number of ids, control ids included

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Returns the ids of each sentence, EOS at the end; raises ValueError for a single str."""

    def encode_flat(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Returns the same as (the ids of all sentences, how many each has)."""
        encoded = self.encode(sentences)
        flat = np.fromiter(chain.from_iterable(encoded), np.int32)
        return flat, np.fromiter(map(len, encoded), np.int64)

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of the ids before the first EOS, without control ids.

        Raises ValueError for the ids of several sentences.
        """

    def without_control(self, ids: Iterable[int]) -> list[int]:
        """Returns the ids before the first EOS, without PAD and BOS; raises as `decode`."""
        try:
            ids = [int(i) for i in ids]
        except TypeError:
            hint = "[tokenizer.decode(ids) for ids in batch]"
            raise ValueError(f"decode takes one sentence; for several: {hint}.") from None
        pad, bos, eos = self.special[:3]
        ids = ids[: ids.index(eos)] if eos in ids else ids
        return [i for i in ids if i not in (pad, bos)]

    def join_pieces(self, text: str) -> str:
        """Returns a line of the corpus as a reader sees it, to be compared with `decode`."""
        return text

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Returns the piece of each id as a string, for pictures."""

    def to_bytes(self) -> bytes:
        """Returns the vocabulary as the content of a file, which `READERS` of `files` read."""

    def __repr__(self) -> str:
        """As "SentencePieceTokenizer(8,000 pieces)", of a class that inherits from this one."""
        return f"{type(self).__name__}({self.vocab_size:,} pieces)"


def check_texts(texts: Iterable[Any], name: str) -> None:
    """Raises ValueError unless `texts` is a sequence of str, whose place is `name` in a call."""
    for _ in checked_texts(texts, name):
        pass


def checked_texts(texts: Iterable[Any], name: str) -> Iterable[str]:
    """Returns `texts`, checked as by `check_texts`: a list now, another iterable as it is read."""
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} takes a list of sentences, not a single one: give [text].")

    def check_each() -> Iterator[str]:
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise ValueError(f"{name} takes sentences of type str; number {index} is {text!r}.")
            yield text

    return list(check_each()) if isinstance(texts, list | tuple) else check_each()


class Words(dict[str, bytes]):
    """The ids of words, int32, so that SentencePiece splits each of them once (`splits_by_word`).

    Words repeat: a text of natural language is tokenised about five times as fast.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor) -> None:
        super().__init__()
        self._processor = processor

    def __missing__(self, word: str) -> bytes:
        ids = np.array(self._processor.encode(word), np.int32).tobytes()
        if len(word) <= LONGEST_WORD and len(self) < MOST_WORDS:
            self[word] = ids
        return ids


def read_spec(model: bytes) -> Any:
    """Returns the pieces and settings of a SentencePiece model."""
    # pyrefly: ignore[missing-attribute]: protobuf makes the class when it is imported
    return sentencepiece_model_pb2.ModelProto.FromString(model)


def splits_by_word(model: bytes) -> bool:
    """Whether a SentencePiece model splits each word by itself, wherever it stands.

    BPE merges neighbours in the order of their pieces' scores, so words cannot disturb each other
    where no piece has "▁", the sign of a space, behind its first character. A piece that a user
    defined may split words where it stands, unless it begins with "▁" as they do.
    """
    spec = read_spec(model)
    normalizer, trainer = spec.normalizer_spec, spec.trainer_spec
    return (
        trainer.model_type == trainer.BPE
        and trainer.byte_fallback
        and not trainer.treat_whitespace_as_suffix
        and not normalizer.precompiled_charsmap
        and normalizer.add_dummy_prefix
        and normalizer.remove_extra_whitespaces
        and normalizer.escape_whitespaces
        and not any("▁" in p.piece[1:] for p in spec.pieces)
        and all(p.piece[0] == "▁" for p in spec.pieces if p.type == p.USER_DEFINED)
    )


class SentencePieceTokenizer(Tokenizer):
    """A SentencePiece model with its own control ids; its start is <s>, or else <pad> or </s>.

    One that is trained here has byte fallback, so an id for every character, and gives back any
    line except for white space: runs of spaces collapse, leading and trailing spaces are dropped,
    and "▁" is treated as a space.
    """

    suffix = ".model"

    def __init__(self, model: bytes) -> None:
        """Raises ValueError if the model is damaged, or if no token of it ends a sentence."""
        self.model, self._processor = model, read_sentencepiece(model)
        pad, bos, eos, unk = (getattr(self._processor, f"{n}_id")() for n in SpecialIds._fields[:4])
        if eos < 0:
            raise ValueError("The SentencePiece model has no </s>: train it with an eos_id.")
        bos = next(i for i in (bos, pad, eos) if i >= 0)  # T5 has no <s>, and starts with <pad>
        self.special = SpecialIds(pad, bos, eos, unk, unk)
        self.vocab_size = self._processor.get_piece_size()
        self.words = Words(self._processor) if splits_by_word(model) else None

    @classmethod
    def train(cls, sentences: Iterable[str], vocab_size: int, tags: Sequence[str] = ()) -> Self:
        """Trains a BPE model of `vocab_size` pieces; the same sentences give the same bytes.

        tags: words that are a piece of their own, at the beginning of a text or behind a space.
        Raises ValueError if the text allows no vocabulary of this size.
        """
        model = io.BytesIO()
        sentences = [s for s in map(_clean, sentences) if s.strip()]
        if not sentences:
            raise ValueError(NO_TEXT)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_writer=model, vocab_size=vocab_size,
                model_type="bpe", byte_fallback=True, character_coverage=0.9999,
                normalization_rule_name="identity", num_threads=1, minloglevel=2,
                **{f"{name}_id": i for name, i in OWN_IDS._asdict().items() if name != "mask"},
                max_sentence_length=LONGEST_LINE,
                user_defined_symbols=[f"▁{tag}" for tag in tags],
            )  # fmt: skip
        except RuntimeError as error:
            raise ValueError(_explain(error, vocab_size)) from None
        return cls(model.getvalue())

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        check_texts(sentences, "encode")
        return [np.frombuffer(row, np.int32).tolist() for row in self._rows(sentences)]

    def encode_flat(self, sentences: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        rows = self._rows(sentences)
        lengths = np.fromiter(map(len, rows), np.int64) // np.int32().nbytes
        return np.frombuffer(b"".join(rows), np.int32), lengths

    def _rows(self, sentences: Sequence[str]) -> list[bytes]:
        """Returns the ids of each sentence, int32, by those of its words if that is possible."""
        texts, eos = map(_clean, sentences), np.int32(self.special.eos).tobytes()
        if self.words is None:
            split = self._processor.encode(list(texts))
            return [np.array(ids, np.int32).tobytes() + eos for ids in split]
        ids_of = self.words.__getitem__
        return [b"".join(map(ids_of, text.split(" "))) + eos for text in texts]

    def decode(self, ids: Iterable[int]) -> str:
        text = self._processor.decode(self.without_control(ids))
        return text.replace("\n", " ").replace("\r", " ")  # byte pieces can spell a line break

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def to_bytes(self) -> bytes:
        return self.model


def read_sentencepiece(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Returns the processor of a SentencePiece model; raises ValueError if that is damaged."""
    try:
        if model:  # the library takes b"" and fails later
            return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        pass
    raise ValueError("This is not a SentencePiece model, or only a part of one.")


def _clean(text: str) -> str:
    """Replaces what SentencePiece cannot take: lone surrogates, and its own sign for a space."""
    return text if text.isascii() else SURROGATE.sub(UNKNOWN, text).replace("▁", " ")


def _explain(error: RuntimeError, vocab_size: int) -> str:
    """Returns why SentencePiece could not make a vocabulary, in terms of our settings."""
    text, setting = " ".join(str(error).split()), f"tokenizer.vocab_size={vocab_size}"
    if largest := re.search(r"too high.*<= (\d+)", text):
        return f"{setting} is more than this corpus can give; the largest possible is {largest[1]}."
    if smallest := re.search(r"smaller than required_chars\. \d+ vs (\d+)", text):
        return f"{setting} is less than this corpus needs; the smallest possible is {smallest[1]}."
    if "sentences_.empty()" in text:
        return f"A tokenizer cannot be trained: every line is longer than {LONGEST_LINE} bytes."
    return f"SentencePiece could not train a vocabulary of {vocab_size}: {text}"
