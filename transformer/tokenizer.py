"""Text to ids and back: SentencePiece BPE trained here, or pieces that are ready-made.

Every sentence ends with EOS; ids below `NUM_SPECIAL` are control ids, which no text can produce.
"""

import io
from collections import Counter
from pathlib import Path

import sentencepiece

PAD, BOS, EOS, UNK = range(4)
NUM_SPECIAL = 4
SAMPLE = 2_000_000  # sentences that a vocabulary is learnt from, at the most


class SentencePieceTokenizer:
    """A SentencePiece model with byte fallback: any text in, the same text out."""

    suffix = ".model"

    def __init__(self, model: bytes):
        if not model:
            raise ValueError("The SentencePiece model is empty; restore the file or train it anew.")
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError(
                f"This is not a SentencePiece model, or a part of one: {error}"
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
        sentences = [s for s in sentences if s.strip()]
        if not sentences:
            raise ValueError("A tokenizer cannot be trained: the corpus holds no text.")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences), model_writer=model, vocab_size=vocab_size,
                model_type="bpe", byte_fallback=True, character_coverage=0.9999,
                normalization_rule_name="identity", num_threads=1, minloglevel=2,
                pad_id=PAD, bos_id=BOS, eos_id=EOS, unk_id=UNK,
                max_sentence_length=16_384,
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
        return _one_line(self._processor.decode(_content(ids)))

    def join(self, text):
        """Text as a reader sees it, to be compared with what `decode` gives."""
        return text

    def pieces(self, ids):
        """Ids -> the pieces as strings, for pictures."""
        return [self._processor.id_to_piece(int(i)) for i in ids]

    def to_bytes(self):
        return self.model


class PiecesTokenizer:
    """Text that is already split by spaces; the vocabulary is that of the training text.

    `joiner` at the end of a piece says that the next one continues the word (subword-nmt's "@@").
    """

    suffix = ".vocab"

    def __init__(self, vocabulary, joiner):
        self._vocabulary, self._joiner = list(vocabulary), joiner
        self._ids = {piece: i + NUM_SPECIAL for i, piece in enumerate(self._vocabulary)}
        if not self._ids or len(self._ids) != len(self._vocabulary):
            raise ValueError("The vocabulary must hold at least one piece and none of them twice.")

    @classmethod
    def train(cls, sentences, joiner):
        """Every piece of the text, the frequent ones first."""
        counts = Counter(piece for sentence in sentences for piece in sentence.split())
        return cls(sorted(counts, key=lambda piece: (-counts[piece], piece)), joiner)

    @property
    def vocab_size(self):
        return len(self._vocabulary) + NUM_SPECIAL

    def encode(self, sentences):
        """list of str -> list of lists of ids, each ending with EOS; new pieces become UNK."""
        return [[*(self._ids.get(piece, UNK) for piece in s.split()), EOS] for s in sentences]

    def decode(self, ids):
        """Ids up to the first EOS -> str, pieces joined to words."""
        return self.join(" ".join(self.pieces(_content(ids))))

    def join(self, text):
        """Pieces with spaces between -> words."""
        text = f"{text} ".replace(f"{self._joiner} ", "") if self._joiner else text
        return text.strip()

    def pieces(self, ids):
        """Ids -> the pieces as strings."""
        special = ("<pad>", "<s>", "</s>", "<unk>")
        return [special[i] if i < NUM_SPECIAL else self._vocabulary[i - NUM_SPECIAL] for i in ids]

    def to_bytes(self):
        return "\n".join([self._joiner, *self._vocabulary]).encode()


def train_tokenizers(config, pairs):
    """(source, target) tokenizers for `TokenizerConfig`; one and the same if shared.

    pairs: list of (source, target) strings, the training text.
    """
    if config.model:
        path = Path(config.model)
        if not path.is_file():
            raise ValueError(
                f"tokenizer.model must name a SentencePiece model; {path} is not there."
            )
        tokenizer = SentencePieceTokenizer(path.read_bytes())
        return tokenizer, tokenizer
    sides = [[pair[side] for pair in pairs[:SAMPLE]] for side in (0, 1)]
    if config.shared:
        tokenizer = _train(config, sides[0] + sides[1])
        return tokenizer, tokenizer
    return tuple(_train(config, side) for side in sides)


def _train(config, sentences):
    if config.kind == "pieces":
        return PiecesTokenizer.train(sentences, config.joiner)
    return SentencePieceTokenizer.train(sentences, config.vocab_size)


def save_tokenizers(folder, source, target):
    """Writes what `load_tokenizers` reads: one file if both are the same tokenizer, else two."""
    for name, tokenizer in _names(source, target).items():
        (Path(folder) / f"{name}{tokenizer.suffix}").write_bytes(tokenizer.to_bytes())


def load_tokenizers(folder):
    """(source, target) tokenizers of a work directory."""
    found = {}
    for path in sorted(Path(folder).glob("*tokenizer.*")):
        if path.suffix == SentencePieceTokenizer.suffix:
            found[path.stem] = _named(path, lambda data: SentencePieceTokenizer(data))
        elif path.suffix == PiecesTokenizer.suffix:
            found[path.stem] = _named(path, _read_vocabulary)
    if "tokenizer" in found:
        return found["tokenizer"], found["tokenizer"]
    if {"source_tokenizer", "target_tokenizer"} <= found.keys():
        return found["source_tokenizer"], found["target_tokenizer"]
    raise ValueError(f"{folder} holds no tokenizer (tokenizer.model or tokenizer.vocab).")


def _names(source, target):
    if source is target:
        return {"tokenizer": source}
    return {"source_tokenizer": source, "target_tokenizer": target}


def _named(path, read):
    try:
        return read(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _read_vocabulary(data):
    joiner, *vocabulary = data.decode().split("\n")
    return PiecesTokenizer(vocabulary, joiner)


def _content(ids):
    """The ids before the first EOS, without padding and the start."""
    ids = [int(i) for i in ids]
    ids = ids[: ids.index(EOS)] if EOS in ids else ids
    return [i for i in ids if i not in (PAD, BOS)]


def _clean(text):
    """A lone surrogate cannot be UTF-8; it becomes U+FFFD."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _one_line(text):
    """Byte pieces can spell a line break; a translation is one line."""
    return text.replace("\n", " ").replace("\r", " ")


def _explain(error, vocab_size):
    text = str(error)
    if "too high" in text:
        largest = text.rsplit("<=", 1)[-1].strip(" .")
        return (
            f"tokenizer.vocab_size={vocab_size} is more than this corpus can give; the largest "
            f"possible is {largest}."
        )
    if "too small" in text or "smaller than required_chars" in text or "required_chars" in text:
        return (
            f"tokenizer.vocab_size={vocab_size} is less than this corpus needs for its characters "
            f"and the 256 bytes; {text.splitlines()[-1]}"
        )
    return f"SentencePiece could not train a vocabulary of {vocab_size}: {text}"
