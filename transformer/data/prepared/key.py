"""What a prepared corpus was made of: the same facts, the same folder; other facts, another one."""

import hashlib
import json
import os
from collections.abc import Sequence
from typing import Any

import sentencepiece
from etils import epath

from transformer.config import Config, DataConfig
from transformer.data import pair_blocks
from transformer.data.parallel_text import parse_corpora
from transformer.data.tokenizer import Tokenizer
from transformer.data.training_text import TrainingText
from transformer.storage import absolute, is_remote

FORMAT = 2  # of the files; another one is prepared anew
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
        raise ValueError(f"{file} cannot be read: {error.strerror}.") from None


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
    parts = pair_blocks.PAIRS_OF_BLOCK  # those of a preparation that was stopped must go on alike
    return {**versions, "pairs_of_part": parts, "corpora": corpora, "settings": values}


def entry_name(kind: str, recipe: Facts, text: list[Facts]) -> str:
    """Returns the name of the folder for these facts, as "corpus-0123456789ab-ba9876543210".

    Two that differ behind the last hyphen alone are of the same corpora, whose text has changed.
    """
    return "-".join([kind, *map(_digest, (recipe, text))])


def _digest(facts: Any) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:12]
