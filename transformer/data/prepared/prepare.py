"""Opens the prepared corpus of a run's text, settings and vocabularies, made if need be.

Corpora are in a folder that runs share. The same text, settings and vocabularies have the same name
there, others another one. Any number of processes and machines may prepare the same corpus at once:
each of its files has the same bytes whoever writes it, and appears as a whole.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import sentencepiece
from etils import epath

from transformer.config import Config, DataConfig
from transformer.console import say
from transformer.data.corpora import pair_files
from transformer.data.corpora.cleaning import HELD_OUT, KeepPairs, length_warnings, read_held_out
from transformer.data.corpora.corpora import Tags, parse_corpora
from transformer.data.corpora.pair_files import Block, sample_evenly
from transformer.data.corpora.training_text import TrainingText, forget_texts
from transformer.data.prepared.corpus import (
    HEADER,
    DamagedFileError,
    PreparedCorpus,
    local_files,
    temporary_folder,
    write_header,
    write_part,
)
from transformer.data.tokenizers.files import (
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
    vocabulary_of,
)
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.files import storage
from transformer.files.parts import Parts
from transformer.files.reading import TransientError, reason_of
from transformer.workdir import WorkDir

NAME = "prepared_corpora"
FORMAT = 4  # of the files; another one is prepared anew
FILTERS = "cache_key", "train_split", "source_language", "target_language", "held_out"
FILTERS += "source_noise", "drop_identical", "drop_without_letters", "drop_wrong_script"
FILTERS += ("drop_overlap",)
OF_TOKENS = "row_length", "max_length_ratio", "drop_duplicates"
PATIENCE = 60.0  # seconds without a new part of the others, after which a process does theirs
MOST_PAIRS = 2_000_000  # that a vocabulary is learnt from
OTHER_FOLDER = "name another folder with --config.data.cache"
Recipe = dict[str, Any]  # as it is written in JSON


class Share(NamedTuple):
    """Which parts this process prepares: those with number % count == index.

    waits: whether it waits for the other parts, which other hosts of the same run prepare.
    """

    index: int = 0
    count: int = 1
    waits: bool = True


def prepare_text(config: Config, workdir: WorkDir, index: int, count: int) -> list[str]:
    """Prepares a share of the training text of a run, as `Share` has it, waiting for no other.

    Returns sentences on the whole corpus; none if others have parts left to prepare.
    """
    source, text = vocabulary_of(workdir, config.training.init_from), TrainingText(config.data)
    known = load_tokenizers(source.path) if source else None
    evaluation = text.evaluation  # read first, so that a missing split is reported before the work
    share = Share(index, count, waits=False)
    _, corpus = training_corpus(config, text, workdir.path, known, share)
    if corpus is None:
        return []
    num_pairs, left_out = len(corpus.source), corpus.left_out
    reasons = ", ".join(f"{number:,} of {reason}" for reason, number in left_out.items())
    warnings = [*length_warnings(left_out, num_pairs), corpus.overlap_with(evaluation)]
    sentences = [f"{num_pairs:,} training pairs; left out: {reasons or 'none'}"]
    return sentences + [f"warning: {warning}" for warning in warnings if warning]


def training_corpus(
    config: Config,
    text: TrainingText,
    workdir: storage.PathLike,
    known: tuple[Tokenizer, Tokenizer] | None,
    share: Share,
) -> tuple[tuple[Tokenizer, Tokenizer], PreparedCorpus | None]:
    """Returns (tokenizers, prepared corpus) of a run; None if others have parts left to prepare.

    known: the tokenizers of the run; None: they are learnt from the text, unless the cache has
    them. Raises ValueError if the text is damaged or no pair of it is left, or the cache cannot be
    written; no part is left there then. What a TransientError ends goes on from there at the next
    start.
    """
    cache = cache_folder(config.data, workdir)
    tokenizers = known or _learn_vocabularies(config, text, cache)
    Tags(config.data).check(tokenizers[0])
    recipe = corpus_recipe(config.data, tokenizers)
    folder = cache / _entry_name("corpus", recipe, text)
    corpus = open_corpus(folder) or _prepare(folder, text, tokenizers, recipe, share)
    forget_texts()
    return tokenizers, corpus


def _prepare(
    folder: epath.Path,
    text: TrainingText,
    tokenizers: Sequence[Tokenizer],
    recipe: Recipe,
    share: Share,
) -> PreparedCorpus | None:
    """Returns the corpus when all parts are there; None if others have parts left to write."""
    parts = Parts(folder)
    keep = KeepPairs(text.config, text.held_out, text.evaluation)
    write = partial(write_part, keep, tokenizers, str(folder))
    try:
        _make_folder(folder)
        if (num_parts := _write_parts(parts, text, write, share)) is None:
            return None
        write_header(folder, text, num_parts, recipe)
        parts.remove_unfinished()
    except DamagedFileError as damage:
        _discard(folder, damage.args[0])
    except TransientError:  # the parts that are missing are written by the next start
        raise
    except ValueError:  # the text is wrong: once it is mended, these parts are of no use
        parts.remove()
        raise
    except OSError as error:
        if (corpus := open_corpus(folder)) is not None:  # others were sooner
            return corpus
        parts.remove()
        raise _not_written("The prepared corpus", folder, error) from None
    return open_corpus(folder) or _prepare(folder, text, tokenizers, recipe, share)


def _write_parts(
    parts: Parts, text: TrainingText, write: Callable[[Block], None], share: Share
) -> int | None:
    """Returns the number of all parts, once they are written; None if others have some to do."""
    num_parts = 0

    def missing(index: int, count: int) -> Iterator[Block]:
        nonlocal num_parts
        done = parts.finished()
        for block in text.blocks():
            num_parts = block.number + 1
            if block.number % count == index and block.number not in done:
                yield block

    def write_all(blocks: Iterator[Block]) -> None:
        for _ in text.in_workers(write, blocks, "preparing the corpus"):
            pass

    write_all(missing(share.index, share.count))
    everything = set(range(num_parts))
    if not share.waits:
        return num_parts if everything <= parts.finished().keys() else None
    if parts.wait_for(everything, PATIENCE, "waiting for the other hosts' parts"):
        write_all(missing(0, 1))
    return num_parts


def open_corpus(folder: epath.Path) -> PreparedCorpus | None:
    """Opens a prepared corpus; returns None without one, or if a file is damaged, which is said.

    Raises TransientError for a corpus that cannot be read at the moment.
    """
    if not (folder / HEADER).exists():
        return None
    try:
        header = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        return PreparedCorpus(local_files(folder), header)
    except TransientError:
        raise
    except DamagedFileError as damage:
        _discard(folder, damage.args[0])
    except (KeyError, TypeError, ValueError):
        _discard(folder, Path(folder / HEADER))
    except OSError as error:
        raise TransientError(
            f"The prepared corpus {folder} cannot be opened ({reason_of(error)}): try again, or "
            f"{OTHER_FOLDER}."
        ) from None
    return None


def _discard(folder: epath.Path, file: Path) -> None:
    say(f"{folder / file.name} is missing or damaged; it is prepared anew from the text")
    with suppress(OSError):  # a folder that cannot be written is reported later
        for path in (folder / file.name, folder / HEADER, file):
            path.unlink(missing_ok=True)


# ---- the vocabularies


def _learn_vocabularies(
    config: Config, text: TrainingText, cache: epath.Path
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the (source, target) tokenizers of a new run: those kept in `cache`, or learnt now.

    The held-out pairs are kept beside them, and written last: with them the folder is complete.
    Raises ValueError if the text allows no such vocabulary, or they cannot be read or written.
    """
    if config.tokenizer.model:
        return train_tokenizers(config.tokenizer, [])
    folder = cache / _entry_name("vocabulary", vocabulary_recipe(config), text)
    if (held_out := read_held_out(folder)) is not None:
        text.held_out = held_out
        try:
            return load_tokenizers(folder)
        except TransientError:
            raise
        except ValueError as error:
            raise ValueError(f"{error} Without {folder} the vocabulary is learnt again.") from None
    sample, num_pairs = sample_evenly(text.pairs(), MOST_PAIRS)
    if len(sample) < num_pairs:
        say(f"the vocabulary is learnt from {len(sample):,} of {num_pairs:,} pairs")
    tokenizers = train_tokenizers(config.tokenizer, sample, Tags(config.data).all)
    Tags(config.data).check(tokenizers[0])  # before anything is kept of them
    try:
        _make_folder(folder)
        writer = f".{uuid.uuid4().hex}"  # other hosts may write the same files at once
        save_tokenizers(folder, *tokenizers, writer)
        storage.write_atomically(folder / HELD_OUT, json.dumps(text.held_out), writer)
    except OSError as error:
        Parts(folder).remove()
        raise _not_written("The vocabulary", folder, error) from None
    return tokenizers


# ---- the folder of prepared corpora, and the names in it


def cache_folder(data: DataConfig, workdir: storage.PathLike) -> epath.Path:
    """Returns the folder of prepared corpora, which may have to be made (`_make_folder`).

    It is `data.cache`, by default `prepared_corpora` beside the work directory. Where that cannot
    be written, it is a temporary one, and for `data.cache` a ValueError.
    """
    beside = storage.absolute(workdir).parent / NAME
    folder = storage.absolute(storage.locate(data.cache)) if data.cache else beside
    if storage.is_remote(folder):
        return folder
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return folder
    if data.cache:
        raise ValueError(f"Nothing can be written to {existing}: {OTHER_FOLDER}.")
    say(
        f"nothing can be written to {existing}, so that the next start prepares the corpus again; "
        f"{OTHER_FOLDER}"
    )
    return epath.Path(temporary_folder(existing))


def _not_written(what: str, folder: epath.Path, error: OSError) -> ValueError:
    reason = f"cannot be written to {folder} ({reason_of(error)}), and none of it is left there"
    return ValueError(f"{what} {reason}: {OTHER_FOLDER}.")


def _make_folder(folder: epath.Path) -> None:
    """Makes a folder of the cache, and the cache, which only the owner may read; raises OSError.

    Says so if the same corpora were prepared there before their text changed. An object store has
    no folders to make.
    """
    cache, same_but_text = folder.parent, folder.name.rpartition("-")[0] + "-*"
    if any(other.name != folder.name for other in cache.glob(same_but_text)):
        say(
            f"the text has changed since it was prepared in {cache}, or another corpus has its "
            f"name: it is prepared anew"
        )
    if not storage.is_remote(cache):
        cache.parent.mkdir(parents=True, exist_ok=True)
        for path in (cache, folder):
            path.mkdir(mode=0o700, exist_ok=True)


def vocabulary_recipe(config: Config) -> Recipe:
    """Returns what the vocabularies of a new run follow from, besides the text."""
    return {"tokenizer": vars(config.tokenizer), **_text_recipe(config.data, FILTERS)}


def corpus_recipe(data: DataConfig, tokenizers: Sequence[Tokenizer]) -> Recipe:
    """Returns what the ids of a corpus follow from, besides the text."""
    digests = [hashlib.sha256(tokenizer.to_bytes()).hexdigest() for tokenizer in tokenizers]
    return {"tokenizers": digests, **_text_recipe(data, FILTERS + OF_TOKENS)}


def _text_recipe(data: DataConfig, settings: Sequence[str]) -> Recipe:
    corpora = parse_corpora(data.corpus)
    return {
        "format": FORMAT,
        "sentencepiece": sentencepiece.__version__,
        "pairs_of_part": pair_files.PAIRS_OF_BLOCK,  # a stopped preparation must go on alike
        "corpora": [(corpus.name.rstrip("/").rpartition("/")[2], corpus.tag) for corpus in corpora],
        "settings": {name: getattr(data, name) for name in settings},
    }


def _entry_name(kind: str, recipe: Recipe, text: TrainingText) -> str:
    """Returns the name of a folder of the cache, as "corpus-0123456789ab-ba9876543210".

    Two that differ behind the last hyphen alone are of the same corpora, whose text has changed.
    """
    facts = (json.dumps(facts, sort_keys=True).encode() for facts in (recipe, text.facts))
    return "-".join([kind, *(hashlib.sha256(fact).hexdigest()[:12] for fact in facts)])
