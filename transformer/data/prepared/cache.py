"""The folder of prepared corpora, which runs share, and the names of the corpora in it.

The same text, settings and vocabularies have the same name, others another one.
"""

import atexit
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import sentencepiece
from etils import epath

from transformer.config import Config, DataConfig
from transformer.console import say
from transformer.data.corpora import blocks
from transformer.data.corpora.corpora import parse_corpora
from transformer.data.corpora.training_text import TrainingText
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files import storage
from transformer.files.reading import unreadable
from transformer.files.storage import absolute, is_remote

NAME = "prepared_corpora"


def cache_folder(data: DataConfig, workdir: storage.PathLike) -> epath.Path:
    """Returns the folder of prepared corpora, which may have to be made (`make_private`).

    It is `data.cache`, by default `prepared_corpora` beside the work directory. Where nothing can
    be written there, it is a temporary one, and that is said. Raises ValueError if `data.cache`
    cannot be written.
    """
    if data.cache:
        folder = storage.absolute(storage.locate(data.cache))
    else:
        folder = storage.absolute(workdir).parent / NAME
    if storage.is_remote(folder):
        return folder
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return folder
    if data.cache:
        raise ValueError(
            f"Nothing can be written to {existing}, where data.cache={data.cache} would be: name "
            f"another folder."
        )
    say(
        f"nothing can be written to {existing}, so that the next start prepares the corpus again; "
        f"name a folder for it with --config.data.cache"
    )
    return epath.Path(temporary_folder())


def temporary_folder() -> pathlib.Path:
    """Makes a local folder for a corpus, which is removed at the end of the process."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="transformer-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def make_private(cache: epath.Path, *names: str) -> None:
    """Makes the folder of prepared corpora and the folders cache/NAME/NAME… in it.

    Only the owner may read them. An object store has no folders. Raises OSError.
    """
    if storage.is_remote(cache):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    for folder in (cache, *(cache.joinpath(*names[: n + 1]) for n in range(len(names)))):
        folder.mkdir(mode=0o700, exist_ok=True)


def say_if_changed(folder: epath.Path) -> None:
    """Says so if the same corpora were prepared here before their text changed.

    folder: what is about to be made; its name is of `entry_name`.
    """
    same_but_text = folder.name.rpartition("-")[0] + "-"
    names = {other.name for other in folder.parent.iterdir()} if folder.parent.exists() else set()
    if any(name.startswith(same_but_text) for name in names - {folder.name}):
        say(
            f"the text has changed since it was prepared in {folder.parent}, or another corpus has "
            f"its name: it is prepared anew"
        )


FORMAT = 3  # of the files; another one is prepared anew
LANGUAGES = "source_language", "target_language"
FILTERS = "cache_key", "train_split", *LANGUAGES, "held_out", "source_noise"
FILTERS += "drop_identical", "drop_without_letters", "drop_wrong_script", "drop_overlap"
OF_TOKENS = "row_length", "max_length_ratio", "drop_duplicates"
CHUNK = 2**24  # bytes that are read at a time
Facts = dict[str, Any]  # as they are written in JSON


def text_facts(text: TrainingText) -> list[Facts]:
    """Returns what tells whether the text has changed, of each of its files.

    It is path, size and time of the last change, or with `data.cache_key=hash` size and hash. With
    `data.drop_overlap`, a hash of the evaluation sets comes last.
    """
    by_hash = text.config.cache_key == "hash"
    facts = [_file_facts(file, by_hash=by_hash) for files in text.files for file in files]
    return [*facts, {"evaluation": text.evaluation.digest}] if text.config.drop_overlap else facts


def _file_facts(file: epath.Path, *, by_hash: bool) -> Facts:
    try:
        if by_hash:
            digest = hashlib.blake2b()
            with file.open("rb") as opened:
                while chunk := opened.read(CHUNK):
                    digest.update(chunk)
            size = file.stat().length
            return {"name": file.name, "bytes": size, "blake2b": digest.hexdigest()}
        if is_remote(file):
            status = file.stat()
            return {"path": str(file), "bytes": status.length, "modified": status.mtime}
        local = os.stat(file)
        path = str(absolute(file))
        return {"path": path, "bytes": local.st_size, "modified": local.st_mtime_ns}
    except OSError as error:
        raise unreadable(str(file), error) from None


def vocabulary_recipe(config: Config) -> Facts:
    """Returns what the vocabularies of a new run follow from, besides the text."""
    tokenizer = {name: getattr(config.tokenizer, name) for name in vars(config.tokenizer)}
    return {"tokenizer": tokenizer, **_text_recipe(config.data, FILTERS)}


def corpus_recipe(data: DataConfig, tokenizers: Sequence[Tokenizer]) -> Facts:
    """Returns what the ids of a corpus follow from, besides the text."""
    digests = [hashlib.sha256(tokenizer.to_bytes()).hexdigest() for tokenizer in tokenizers]
    return {"tokenizers": digests, **_text_recipe(data, FILTERS + OF_TOKENS)}


def _text_recipe(data: DataConfig, settings: Sequence[str]) -> Facts:
    parsed = parse_corpora(data.corpus)
    corpora = [(corpus.name.rstrip("/").rpartition("/")[2], corpus.tag) for corpus in parsed]
    values = {name: getattr(data, name) for name in settings}
    versions = {"format": FORMAT, "sentencepiece": sentencepiece.__version__}
    parts = blocks.PAIRS_OF_BLOCK  # those of a preparation that was stopped must go on alike
    return {**versions, "pairs_of_part": parts, "corpora": corpora, "settings": values}


def entry_name(kind: str, recipe: Facts, text: list[Facts]) -> str:
    """Returns the name of the folder for these facts, as "corpus-0123456789ab-ba9876543210".

    Two that differ behind the last hyphen alone are of the same corpora, whose text has changed.
    """
    return "-".join([kind, *map(_digest, (recipe, text))])


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
