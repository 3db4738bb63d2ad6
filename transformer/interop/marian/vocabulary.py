"""The vocabularies of a native Marian package: vocab.spm, or *.vocab.yml beside two .spm files."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from transformer.data.tokenizers.lists import PieceListTokenizer
from transformer.data.tokenizers.sentencepiece import read_sentencepiece
from transformer.files.reading import read_file
from transformer.interop.huggingface.seq2seq_vocabulary import Vocabulary, first_of_marian
from transformer.special_tokens import SpecialIds

ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
LETTERS: dict[str, str] = dict(
    zip("0abtnvfreN_LP", "\0\a\b\t\n\v\f\r\x1b\x85\xa0\u2028\u2029", strict=True)
)
COMPLEX_KEY = re.compile(rb"^\? (.*)\n: ", re.MULTILINE)


@dataclass(frozen=True)
class _Side:
    """A language: how text is split, and the pieces by their ids."""

    file: Path
    model: bytes
    pieces: list[str]

    def tokenizer(self, first: Sequence[str] = ()) -> PieceListTokenizer:
        """Returns the tokenizer that begins every text with the pieces `first`.

        Marian has neither <pad> nor <s>: one more piece stands for both, as in Hugging Face's
        models of Marian.
        """
        try:
            end, unknown = (self.pieces.index(name) for name in ("</s>", "<unk>"))
        except ValueError:
            raise ValueError(f"{self.file}: it has no </s> or no <unk>; restore it.") from None
        pad = len(self.pieces)
        special = SpecialIds(pad, pad, end, unknown, unknown)
        try:
            return PieceListTokenizer(self.model, [*self.pieces, "<pad>"], first, special)
        except ValueError as error:
            raise ValueError(f"{self.file}: {error}") from None


def read_vocab_yml(data: bytes) -> list[str]:
    """Returns the pieces of a Marian vocabulary in the order of their ids.

    The file is not YAML as the standard has it: keys hold raw U+0085, and bytes that are not UTF-8.
    Only the line feed ends a line. Raises ValueError if it is damaged.
    """
    pieces: dict[int, str] = {}
    try:
        lines = [*filter(None, COMPLEX_KEY.sub(rb"\1: ", data).split(b"\n"))]
        for line in lines:
            key, number = line.rsplit(b":", 1)
            pieces[int(number)] = _text(_unquoted(key.decode(errors="surrogateescape")))
    except ValueError:
        raise ValueError("This is not a vocabulary of Marian; restore the file.") from None
    if not pieces or sorted(pieces) != list(range(len(lines))):
        raise ValueError("The ids of the vocabulary are not 0, 1, 2, …; restore the file.")
    return [pieces[i] for i in range(len(pieces))]


def _text(key: str) -> str:
    r"""Returns a key with its invalid bytes as they are printed, r"\xc1\xbf".

    yaml-cpp writes DEL as these two bytes and reads them as no DEL: a text's is unknown to Marian.
    """
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _unquoted(key: str) -> str:
    r"""Returns the text of a key: "\"\ufeff\"" in double quotes has escapes, 'it''s' has none."""
    if len(key) > 1 and key[0] == key[-1] == '"':
        return ESCAPE.sub(_unescaped, key[1:-1])
    if len(key) > 1 and key[0] == key[-1] == "'":
        return key[1:-1].replace("''", "'")
    return key


def _unescaped(match: re.Match[str]) -> str:
    if code := match[1] or match[2] or match[3]:
        return chr(int(code, 16))
    return LETTERS.get(match[4], match[4])


def read_vocabularies(
    folder: Path, files: Sequence[Path], languages: tuple[str, str]
) -> Vocabulary:
    """Reads both vocabularies of a package.

    files: Marian's vocabularies of source and target. The tokenizers are the same object if both
    sides are split and numbered alike. Raises ValueError, naming the file, for one that is missing
    or damaged, and for a language that the model does not have.
    """
    models = [
        file if file.suffix == ".spm" else folder / f"{side}.spm"
        for file, side in zip(files, ("source", "target"), strict=True)
    ]
    source, target = (_read_side(*side) for side in zip(files, models, strict=True))
    first, notes = first_of_marian(languages[1], source.pieces)
    tokenizers = source.tokenizer(first), target.tokenizer()
    if tokenizers[0].to_bytes() == tokenizers[1].to_bytes():
        tokenizers = tokenizers[:1] * 2
    return Vocabulary(tokenizers, languages, notes)


def _read_side(vocabulary: Path, model_file: Path) -> _Side:
    model = read_file(model_file)
    try:
        processor = read_sentencepiece(model)
    except ValueError as error:
        raise ValueError(f"{model_file}: {error}") from None
    try:
        if vocabulary.suffix == ".spm":
            names = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        elif vocabulary.suffix in (".yml", ".yaml"):
            names = read_vocab_yml(read_file(vocabulary))
        else:
            raise ValueError("Marian's vocabularies must be .spm or .yml files.")
    except ValueError as error:
        raise ValueError(f"{vocabulary}: {error}") from None
    return _Side(vocabulary, model, names)
