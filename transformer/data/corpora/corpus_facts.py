"""What a corpus shows by itself: its languages, the splits it lacks, the amount of its text."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from transformer.config import Config, DataConfig
from transformer.data.corpora.corpora import Tags, parse_corpora
from transformer.data.corpora.pair_files import (
    FORMATS,
    SPLIT_OF_FILES,
    Pair,
    Pairs,
    files_by_stem,
    names_files,
    sample_evenly,
)
from transformer.data.files.text import describe_folder, parse_split
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.files import load_tokenizers, train_tokenizers
from transformer.files.storage import locate
from transformer.special_tokens import NUM_SPECIAL

AUTO = "auto"
SAMPLE = 20_000  # pairs that lengths are measured on
EMBEDDED = ("en", "de")
NUM_BYTES = 256
WORD = re.compile(r"[^\W\d_]{2,}")
MOST_WORDS = 2**18  # that are counted: no vocabulary that is chosen has as many pieces


class TextFacts(NamedTuple):
    """The amount of a training text, both sides together."""

    num_pairs: int
    num_bytes: int
    num_characters: int  # different ones
    num_words: int  # different ones, of two letters or more, up to about `MOST_WORDS`

    @property
    def least_vocabulary(self) -> int:
        """The pieces that SentencePiece cannot do without: bytes, control pieces, characters."""
        return NUM_BYTES + NUM_SPECIAL + self.num_characters

    @property
    def largest_vocabulary(self) -> int:
        """A number of pieces that the text is sure to have: it can make one of each word."""
        return self.least_vocabulary + self.num_words


class Lengths(NamedTuple):
    """Tokens per sentence, EOS included, of a sample of the pairs; [number of pairs] each."""

    source: np.ndarray
    target: np.ndarray


def find_languages(config: DataConfig) -> tuple[str, str]:
    """Returns (source, target) language; those that are "auto" follow from the files' names.

    Of two, English is the source, else the first in the alphabet. Raises ValueError if the names
    do not tell.
    """
    given = config.languages
    if AUTO not in given:
        return given
    corpus, split = parse_corpora(config.corpus)[0].name, parse_split(config.train_split).name
    if _is_dataset(corpus):
        named = re.fullmatch(r"tfds:.*/(\w+)-(\w+)", corpus)
        languages = EMBEDDED if corpus == "embedded" else named.groups() if named else ()
    else:
        languages = sorted(_endings(corpus, split).difference(FORMATS))
    rest = [language for language in languages if language not in given]
    if len(rest) != given.count(AUTO) or len(languages) != 2:
        holds = "" if _is_dataset(corpus) else f" ({describe_folder(locate(corpus))})"
        raise ValueError(
            f"The languages of {corpus} cannot be told from its files: they follow from two files "
            f"such as {split}.en and {split}.de{holds}; set --config.data.source_language=… and "
            f"--config.data.target_language=…."
        )
    rest.sort(key=lambda language: (language != "en", language))
    source, target = (rest.pop(0) if language == AUTO else language for language in given)
    return source, target


def missing_splits(config: DataConfig) -> list[str]:
    """Returns which of the validation and the test split a corpus folder has no files for."""
    corpus = parse_corpora(config.corpus)[0].name
    missing, is_named = dict[str, None](), not _is_dataset(corpus) and names_files(corpus)
    for text in (config.validation_split, config.test_split):
        name = parse_split(text).name
        if _is_dataset(corpus) or (is_named and name == SPLIT_OF_FILES):  # a part, as train[99%:]
            continue
        endings = set[str]() if is_named else _endings(corpus, name)
        if not endings.intersection(FORMATS) and not endings.issuperset(config.languages):
            missing[text] = None
    return list(missing)


def _is_dataset(corpus: str) -> bool:
    """Whether a corpus is none of the user's own files."""
    return corpus == "embedded" or corpus.startswith("tfds:")


def _endings(corpus: str, split: str) -> set[str]:
    """Returns the endings of the files of a split: {"en", "de"} of train.en, train.de.gz."""
    return {ending for files in files_by_stem(corpus, split).values() for ending in files}


def measure_text(pairs: Iterable[tuple[str, str]]) -> tuple[TextFacts, Pairs]:
    """Returns the amount of a training text, and about `SAMPLE` of its pairs, evenly spread."""
    characters, words, num_bytes = set[str](), set[str](), 0

    def measured() -> Iterator[Pair]:
        nonlocal num_bytes
        for pair in pairs:
            for side in pair:
                characters.update(side)
                if len(words) < MOST_WORDS:
                    words.update(WORD.findall(side))
                num_bytes += len(side.encode(errors="replace"))
            yield pair

    sample, num_pairs = sample_evenly(measured(), SAMPLE)
    return TextFacts(num_pairs, num_bytes, len(characters), len(words)), sample


def measure_lengths(sample: Pairs, config: Config) -> Lengths:
    """Returns the lengths in tokens of some pairs.

    They are counted by the tokenizers of the run to start from, or by some that are trained on
    these pairs.
    """
    if config.training.init_from:
        tokenizers = load_tokenizers(locate(config.training.init_from))
    else:
        size = min(config.tokenizer.vocab_size, measure_text(sample)[0].largest_vocabulary)
        tokenizer, tags = replace(config.tokenizer, vocab_size=size), Tags(config.data).all
        tokenizers = train_tokenizers(tokenizer, sample, tags)
    source, target = (
        Ragged.encode(tokenizer, [pair[side] for pair in sample]).lengths
        for side, tokenizer in enumerate(tokenizers)
    )
    return Lengths(source, target)
