"""Opens the prepared corpus of a run's text, settings and vocabularies, made if need be."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
from etils import epath

from transformer import storage
from transformer.config import Config
from transformer.console import format_seconds, say
from transformer.data.pair_blocks import PAIRS_OF_BLOCK
from transformer.data.prepared import key
from transformer.data.prepared.cache import say_if_changed
from transformer.data.prepared.corpus import PreparedCorpus
from transformer.data.prepared.preparation import Preparation, Share, open_or_discard
from transformer.data.prepared.vocabularies import vocabularies
from transformer.data.tags import Tags
from transformer.data.tokenizer import Tokenizer
from transformer.data.tokenizer_files import train_tokenizers
from transformer.data.training_text import TrainingText
from transformer.folders import remove_folder
from transformer.reading import PassingError


def training_corpus(
    config: Config,
    text: TrainingText,
    cache: epath.Path,
    tokenizers: tuple[Tokenizer, Tokenizer] | None,
    share: Share,
) -> tuple[tuple[Tokenizer, Tokenizer], PreparedCorpus | None]:
    """Returns (tokenizers, prepared corpus) of a run; None if others have parts left to prepare.

    cache: the folder of prepared corpora. tokenizers: those of the run; None: they are learnt from
    the text, unless `cache` has them. Raises ValueError if no pair is left of the text, or the
    folder cannot be written; nothing is left there then. What a PassingError ends goes on from
    there at the next start.
    """
    facts, is_new = key.text_facts(text), tokenizers is None
    folder = cache / key.entry_name("vocabulary", key.vocabulary_recipe(config), facts)
    if tokenizers is None and config.tokenizer.model:
        tokenizers = train_tokenizers(config.tokenizer, [])
    was_learnt = folder.exists()
    if tokenizers is None:
        tokenizers = vocabularies(config, text, folder)
    try:
        Tags(config.data).check(tokenizers[0])
        return tokenizers, _open_or_prepare(text, cache, tokenizers, facts, share, is_new=is_new)
    except PassingError:
        raise
    except ValueError:
        if is_new and not was_learnt and not storage.is_remote(folder):
            remove_folder(folder)
            with suppress(OSError):  # there is something else in it
                os.rmdir(cache)
        raise


def _open_or_prepare(
    text: TrainingText,
    cache: epath.Path,
    tokenizers: Sequence[Tokenizer],
    facts: list[key.Facts],
    share: Share,
    *,
    is_new: bool,
) -> PreparedCorpus | None:
    """Returns the corpus. facts: of the text. is_new: whether the vocabularies are those of now."""
    recipe = key.corpus_recipe(text.config, tokenizers)
    folder = cache / key.entry_name("corpus", recipe, facts)
    corpus, how = open_or_discard(folder), "was prepared before"
    if corpus is None:
        if not is_new:
            say_if_changed(folder)
        start = time.monotonic()
        made_of = {"recipe": recipe, "text": facts}
        corpus = Preparation(folder, text, tokenizers, made_of, share).run()
        how = f"prepared in {format_seconds(time.monotonic() - start)}"
    if corpus is not None and len(corpus.source) > PAIRS_OF_BLOCK:
        sides, pairs = (corpus.source, corpus.target), len(corpus.source)
        tokens = sum(int(side.lengths.sum(dtype=np.int64)) for side in sides)
        say(f"corpus of {pairs:,} pairs, {tokens:,} tokens, {how}: {folder}")
    return corpus
