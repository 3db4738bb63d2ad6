"""The tokenizers of a run, one for each language or one for both: trained, saved and loaded."""

from etils import epath

from transformer.data.simple_tokenizers import CharacterTokenizer, PiecesTokenizer
from transformer.data.tokenizer import SentencePieceTokenizer
from transformer.storage import locate, write_atomically

Tokenizer = SentencePieceTokenizer | PiecesTokenizer | CharacterTokenizer
SAMPLE = 2_000_000  # pairs that a vocabulary is learnt from, at the most
PAIR = {"source_tokenizer", "target_tokenizer"}
READERS = {
    SentencePieceTokenizer.suffix: SentencePieceTokenizer,
    PiecesTokenizer.suffix: PiecesTokenizer.from_bytes,
    CharacterTokenizer.suffix: CharacterTokenizer.from_bytes,
}


def train_tokenizers(config, pairs):
    """(source, target) tokenizers for `TokenizerConfig`; one and the same if shared.

    pairs: list of (source, target) strings, the training text.
    """
    if config.model:
        tokenizer = _load(locate(config.model), SentencePieceTokenizer)
        return tokenizer, tokenizer
    sample = pairs[:: -(-len(pairs) // SAMPLE)]  # from all of it: corpora stand one after another
    sides = [[pair[side] for pair in sample] for side in (0, 1)]
    if config.shared:
        tokenizer = _train(config, config.kind, sides[0] + sides[1])
        return tokenizer, tokenizer
    return tuple(map(_train, (config, config), config.kinds, sides))


def train_tokenizer(config, sentences):
    """The tokenizer of a text for `TokenizerConfig`."""
    if config.model:
        return _load(locate(config.model), SentencePieceTokenizer)
    return _train(config, config.kind, sentences)


def _train(config, kind, sentences):
    if kind == "pieces":
        return PiecesTokenizer.train(sentences, config.joiner)
    if kind == "characters":
        return CharacterTokenizer.train(sentences)
    return SentencePieceTokenizer.train(sentences, config.vocab_size)


def save_tokenizers(folder, source, target):
    """Writes what `load_tokenizers` reads: one file if both are the same tokenizer, else two."""
    if source is target:
        tokenizers = {"tokenizer": source}
    else:
        tokenizers = {"source_tokenizer": source, "target_tokenizer": target}
    for path in _files(folder).values():  # of a run that did not come to begin
        path.unlink()
    for name, tokenizer in tokenizers.items():
        write_atomically(epath.Path(folder) / f"{name}{tokenizer.suffix}", tokenizer.to_bytes())


def load_tokenizers(folder):
    """(source, target) tokenizers of a work directory; ValueError if one is missing or bad."""
    files = _files(folder)
    if "tokenizer" not in files and not files.keys() >= PAIR:
        raise ValueError(
            f"{folder} holds no tokenizer: neither tokenizer{', tokenizer'.join(READERS)} nor "
            f"a source_ and a target_tokenizer."
        )
    if "tokenizer" in files:
        tokenizer = _load(files["tokenizer"], READERS[files["tokenizer"].suffix])
        return tokenizer, tokenizer
    return tuple(_load(files[name], READERS[files[name].suffix]) for name in sorted(PAIR))


def _files(folder):
    """{name: path} of the tokenizer files of a folder."""
    folder = epath.Path(folder)
    files = folder.iterdir() if folder.is_dir() else ()
    return {p.stem: p for p in files if p.stem.endswith("tokenizer") and p.suffix in READERS}


def _load(path, read):
    try:
        return read(path.read_bytes())
    except OSError as error:
        raise ValueError(f"The tokenizer {path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
