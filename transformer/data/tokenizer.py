"""Text to ids and back: SentencePiece BPE trained here, or pieces that are ready-made.

Every sentence ends with EOS; ids below `NUM_SPECIAL` are control ids, which no text can produce.
Characters as pieces: `characters`.
"""

import io
import re

import sentencepiece

from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD, UNK

SURROGATE = re.compile("[\ud800-\udfff]")
LONGEST_LINE = 16_384  # bytes of a line that a vocabulary is learnt from


class SentencePieceTokenizer:
    """A SentencePiece model with byte fallback: any line comes back as it was, but for its spaces.

    Several become one and those at the ends go; "▁", SentencePiece's own sign for a space, is one.
    """

    suffix = ".model"

    def __init__(self, model: bytes):
        if not model:
            raise ValueError("The SentencePiece model is empty; restore the file or train it anew.")
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise ValueError(
                "This is not a SentencePiece model, or only a part of one; restore the file or "
                "train it anew."
            ) from None
        special = tuple(
            getattr(self._processor, f"{name}_id")() for name in ("pad", "bos", "eos", "unk")
        )
        if special != (PAD, BOS, EOS, UNK):
            raise ValueError(
                f"The SentencePiece model must be trained with pad_id=0, bos_id=1, eos_id=2 and "
                f"unk_id=3, not {special}."
            )

    @classmethod
    def train(cls, sentences, vocab_size):
        """A BPE model of `vocab_size` pieces; the same sentences give the same bytes."""
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
            )  # fmt: skip
        except RuntimeError as error:
            raise ValueError(_explain(error, vocab_size)) from None
        return cls(model.getvalue())

    @property
    def vocab_size(self):
        return self._processor.get_piece_size()

    def encode(self, sentences):
        """list of str -> list of lists of ids, each ending with EOS."""
        return [[*ids, EOS] for ids in self._processor.encode([_clean(s) for s in sentences])]

    def decode(self, ids):
        """Ids up to the first EOS -> str on one line, control ids left out."""
        return _one_line(self._processor.decode(strip_control_ids(ids)))

    def join(self, text):
        """Text as a reader sees it, to be compared with what `decode` gives."""
        return text

    def pieces(self, ids):
        """Ids -> the pieces as strings, for pictures."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def to_bytes(self):
        return self.model


def strip_control_ids(ids):
    """The ids before the first EOS, without padding and the start."""
    ids = [int(i) for i in ids]
    ids = ids[: ids.index(EOS)] if EOS in ids else ids
    return [i for i in ids if i not in (PAD, BOS)]


def _clean(text):
    """A lone surrogate cannot be UTF-8 and becomes U+FFFD; a sign for a space becomes one."""
    return SURROGATE.sub("\ufffd", text).replace("▁", " ")


def _one_line(text):
    """Byte pieces can spell a line break; a translation is one line."""
    return text.replace("\n", " ").replace("\r", " ")


def _explain(error, vocab_size):
    """What SentencePiece says of a vocabulary it cannot make, in the words of our settings."""
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
