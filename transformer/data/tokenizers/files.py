"""Trains, saves and loads the tokenizers of a run: one for each language, or one for both."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePath

from etils import epath

from transformer.config import TokenizerConfig
from transformer.console import phase
from transformer.data.tokenizers.huggingface import HuggingFaceTokenizer, train_byte_level
from transformer.data.tokenizers.lists import (
    CharacterTokenizer,
    PieceListTokenizer,
    PiecesTokenizer,
)
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer, Tokenizer
from transformer.files.reading import TransientError, read_file, reason_of
from transformer.files.storage import PathLike, locate, write_atomically
from transformer.workdir import WorkDir

SHARED, PAIR = ["tokenizer"], ["source_tokenizer", "target_tokenizer"]  # names of files
READERS: dict[str, Callable[[bytes], Tokenizer]] = {
    SentencePieceTokenizer.suffix: SentencePieceTokenizer,
    PiecesTokenizer.suffix: PiecesTokenizer.from_bytes,
    CharacterTokenizer.suffix: CharacterTokenizer.from_bytes,
    PieceListTokenizer.suffix: PieceListTokenizer.from_bytes,
    HuggingFaceTokenizer.suffix: HuggingFaceTokenizer.from_bytes,
}
DAMAGED = ValueError, TypeError, LookupError, AttributeError, RecursionError  # of bytes, and JSON


def train_tokenizers(
    config: TokenizerConfig, pairs: Sequence[tuple[str, str]], tags: Sequence[str] = ()
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of the training text; the same object if shared.

    tags: of the sources, each to be a piece of its own. Raises as `train_tokenizer`.
    """
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if config.shared or config.model:
        return (train_tokenizer(config, sources + targets, tags=tags),) * 2
    source_kind, target_kind = config.kinds
    return (
        train_tokenizer(config, sources, source_kind, tags),
        train_tokenizer(config, targets, target_kind),
    )


def train_tokenizer(
    config: TokenizerConfig, sentences: Sequence[str], kind: str = "", tags: Sequence[str] = ()
) -> Tokenizer:
    """Returns the tokenizer of a text in one language, or reads that of `config.model`.

    kind: "" for `config.kind`. Raises ValueError if the text allows no such vocabulary, or if the
    file cannot be read.
    """
    if config.model:
        path = locate(config.model)
        return _parse(read_file(path, f"The tokenizer {path}"), SentencePieceTokenizer, path)
    kind = kind or config.kind
    if kind == "imported":
        raise ValueError(
            "tokenizer.kind=imported is the tokenizer of an imported model and cannot be trained: "
            "name the run that has it with training.init_from, or set another tokenizer.kind."
        )
    with phase("learning the vocabulary"):
        if kind == "pieces":
            return PiecesTokenizer.train(sentences, config.joiner)
        if kind == "characters":
            return CharacterTokenizer.train(sentences)
        if kind == "byte_level":
            return train_byte_level(sentences, config.vocab_size)
        return SentencePieceTokenizer.train(sentences, config.vocab_size, tags)


def save_tokenizers(
    folder: PathLike, source: Tokenizer, target: Tokenizer, writer: str = ""
) -> None:
    """Writes what `load_tokenizers` reads: one file if both are the same object, else two.

    writer: as of `open_atomically`.
    """
    named = zip(SHARED if source is target else PAIR, (source, target), strict=False)
    contents = {f"{name}{tokenizer.suffix}": tokenizer.to_bytes() for name, tokenizer in named}
    for path in _files(folder):
        if path.name not in contents:  # left by a run that never began
            path.unlink(missing_ok=True)
    for name, content in contents.items():
        write_atomically(epath.Path(folder) / name, content, writer)


def load_tokenizers(folder: PathLike) -> tuple[Tokenizer, Tokenizer]:
    """Reads the (source, target) tokenizers of a work directory; raises as `parse_tokenizers`."""
    contents = {path.name: read_file(path, f"The tokenizer {path}") for path in _files(folder)}
    return parse_tokenizers(contents, folder)


def parse_tokenizers(
    contents: Mapping[str, bytes], folder: PathLike
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of files, which are given by their names.

    folder: where they are, for messages. Raises ValueError if one is missing or damaged.
    """
    paths = map(epath.Path(folder).joinpath, contents)
    by_stem = {path.stem: path for path in paths if _is_tokenizer(path)}
    stems = SHARED if SHARED[0] in by_stem else PAIR
    if not by_stem.keys() >= {*stems}:
        raise ValueError(
            f"{folder} holds no tokenizer: neither tokenizer{', tokenizer'.join(READERS)} nor "
            f"a source_ and a target_tokenizer."
        )
    chosen = [by_stem[stem] for stem in stems]
    tokenizers = [_parse(contents[path.name], READERS[path.suffix], path) for path in chosen]
    return tokenizers[0], tokenizers[-1]


def vocabulary_of(workdir: WorkDir, init_from: str) -> WorkDir | None:
    """Returns the work directory whose vocabularies a run has: its own one once it has begun.

    Before that it is `init_from`, or None if the run learns its own vocabularies.
    """
    if workdir.has_run:
        return workdir
    return WorkDir(init_from) if init_from else None


def _files(folder: PathLike) -> list[epath.Path]:
    folder = epath.Path(folder)
    return [*filter(_is_tokenizer, folder.iterdir())] if folder.is_dir() else []


def _is_tokenizer(path: PurePath) -> bool:
    return path.stem in (*SHARED, *PAIR) and path.suffix in READERS


def _parse(data: bytes, parse: Callable[[bytes], Tokenizer], path: epath.Path) -> Tokenizer:
    try:
        return parse(data)
    except TransientError:  # a library is not installed
        raise
    except DAMAGED as error:
        raise ValueError(
            f"{path} holds no tokenizer ({reason_of(error).rstrip('.')}): restore the file, or "
            f"train or import it anew."
        ) from None
