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
from transformer.files.reading import TransientError, read_file
from transformer.files.storage import PathLike, locate, write_atomically
from transformer.workdir import WorkDir

PAIR = {"source_tokenizer", "target_tokenizer"}
READERS: dict[str, Callable[[bytes], Tokenizer]] = {
    SentencePieceTokenizer.suffix: SentencePieceTokenizer,
    PiecesTokenizer.suffix: PiecesTokenizer.from_bytes,
    CharacterTokenizer.suffix: CharacterTokenizer.from_bytes,
    PieceListTokenizer.suffix: PieceListTokenizer.from_bytes,
    HuggingFaceTokenizer.suffix: HuggingFaceTokenizer.from_bytes,
}


def train_tokenizers(
    config: TokenizerConfig, pairs: Sequence[tuple[str, str]], tags: Sequence[str] = ()
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of the training text; the same object if shared.

    tags: of the sources, each to be a piece of its own.
    Raises ValueError if the text allows no such vocabulary, or if `config.model` cannot be read.
    """
    if config.model:
        tokenizer = _load(locate(config.model), SentencePieceTokenizer)
        return tokenizer, tokenizer
    sources, targets = ([pair[side] for pair in pairs] for side in (0, 1))
    if config.shared:
        tokenizer = _train(config, config.kind, sources + targets, tags)
        return tokenizer, tokenizer
    source_kind, target_kind = config.kinds
    return _train(config, source_kind, sources, tags), _train(config, target_kind, targets)


def train_tokenizer(config: TokenizerConfig, sentences: Sequence[str]) -> Tokenizer:
    """Returns the tokenizer of a text in one language; raises ValueError as `train_tokenizers`."""
    if config.model:
        return _load(locate(config.model), SentencePieceTokenizer)
    return _train(config, config.kind, sentences)


def _train(
    config: TokenizerConfig, kind: str, sentences: Sequence[str], tags: Sequence[str] = ()
) -> Tokenizer:
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
    if source is target:
        tokenizers = {"tokenizer": source}
    else:
        tokenizers = {"source_tokenizer": source, "target_tokenizer": target}
    contents = {f"{name}{of.suffix}": of.to_bytes() for name, of in tokenizers.items()}
    for path in _files(folder).values():
        if path.name not in contents:  # left by a run that never began
            path.unlink(missing_ok=True)
    for name, content in contents.items():
        write_atomically(epath.Path(folder) / name, content, writer)


def load_tokenizers(folder: PathLike) -> tuple[Tokenizer, Tokenizer]:
    """Reads the (source, target) tokenizers of a work directory.

    Raises ValueError if one is missing or damaged.
    """
    return parse_tokenizers(
        {p.name: read_file(p, f"The tokenizer {p}") for p in _files(folder).values()}, folder
    )


def parse_tokenizers(
    contents: Mapping[str, bytes], folder: PathLike
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of files, which are given by their names.

    folder: where they are, for messages. Raises ValueError if one is missing or damaged.
    """
    names = {PurePath(name).stem: name for name in contents if _is_tokenizer(PurePath(name))}
    if "tokenizer" not in names and not names.keys() >= PAIR:
        raise ValueError(
            f"{folder} holds no tokenizer: neither tokenizer{', tokenizer'.join(READERS)} nor "
            f"a source_ and a target_tokenizer."
        )
    chosen = [names[stem] for stem in (["tokenizer"] if "tokenizer" in names else sorted(PAIR))]
    found = [
        _parse(contents[name], READERS[PurePath(name).suffix], epath.Path(folder) / name)
        for name in chosen
    ]
    return found[0], found[-1]


def vocabulary_of(workdir: WorkDir, init_from: str) -> WorkDir | None:
    """Returns the work directory whose vocabularies a run has; None if it learns its own.

    It is the run's own once it has begun, and before that the one of `init_from`, if not "".
    """
    if workdir.has_run:
        return workdir
    return WorkDir(init_from) if init_from else None


def _files(folder: PathLike) -> dict[str, epath.Path]:
    """Returns the tokenizer files of a folder by their names without suffix."""
    folder = epath.Path(folder)
    files = folder.iterdir() if folder.is_dir() else ()
    return {path.stem: path for path in files if _is_tokenizer(path)}


def _is_tokenizer(path: PurePath) -> bool:
    return path.stem.endswith("tokenizer") and path.suffix in READERS


def _load(path: epath.Path, parse: Callable[[bytes], Tokenizer]) -> Tokenizer:
    return _parse(read_file(path, f"The tokenizer {path}"), parse, path)


def _parse(data: bytes, parse: Callable[[bytes], Tokenizer], path: epath.Path) -> Tokenizer:
    try:
        return parse(data)
    except TransientError as error:  # a library is not installed
        raise TransientError(f"{path}: {error}") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
