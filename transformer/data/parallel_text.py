"""Reads sentence pairs, in order, a block at a time, so that a corpus may be of any size.

A corpus is `embedded`, a folder with files for each split, a file or a pattern of their names (see
`pair_files`), or `tfds:NAME` for any TFDS dataset with a `Translation` feature.
"""

import lzma
import math
import re
import warnings
from collections.abc import Iterator
from importlib import resources
from typing import NamedTuple

from etils import epath

from transformer.config import DataConfig
from transformer.data.file_blocks import blocks_of_files
from transformer.data.held_out import held_out_pairs, held_out_parts
from transformer.data.pair_blocks import Block, Pairs, add_repairs, blocks_of_pairs
from transformer.data.pair_files import find_pair_files
from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import Repairs, decode_text

TAG = re.compile(r"[^\s,@#/▁]+")


class Corpus(NamedTuple):
    """A corpus of a run. tag: the piece that each source begins with, or "" for none."""

    name: str
    weight: float = 1.0  # how often an epoch shows each pair
    tag: str = ""

    def put_tag_on(self, source: str) -> str:
        """Returns a source of this corpus as the model sees it: "<2fr> A man." with tag <2fr>."""
        return f"{self.tag} {source}" if self.tag else source

    def take_tag_off(self, source: str) -> str:
        """Returns a source as it is in the text."""
        return source.removeprefix(f"{self.tag} ") if self.tag else source


def parse_corpora(text: str) -> list[Corpus]:
    """Parses the corpora of `data.corpus`, each NAME, NAME@WEIGHT, NAME#TAG or NAME@WEIGHT#TAG.

    Raises ValueError if there is none, a weight is not a finite number above 0, or a tag is no
    single piece of text.

    >>> parse_corpora("a@2,b#<bt>")
    [Corpus(name='a', weight=2.0, tag=''), Corpus(name='b', weight=1.0, tag='<bt>')]
    """
    parts = [part.strip() for part in text.split(",")]
    corpora = [_parse_corpus(part) for part in parts if part]
    if not corpora:
        raise ValueError("data.corpus is empty; name a corpus, for example 'embedded'.")
    return corpora


def _parse_corpus(part: str) -> Corpus:
    weighted, hash_sign, tag = part.partition("#")
    if hash_sign and not TAG.fullmatch(tag):
        raise ValueError(
            f"A tag follows # at the end of a corpus, behind its weight, as in NAME@2#<2fr>, and "
            f"has no space and none of @ # / ▁ in it, unlike '{part}'."
        )
    name, at, weight = weighted.rpartition("@")
    try:
        corpus = Corpus(name, float(weight), tag) if at else Corpus(weighted, tag=tag)
    except ValueError:
        raise ValueError(
            f"A corpus is NAME or NAME@WEIGHT with a number as weight, not '{part}'."
        ) from None
    if not corpus.name:
        raise ValueError(f"A corpus needs a name, which '{part}' lacks.")
    if not 0 < corpus.weight < math.inf:
        raise ValueError(f"The weight of a corpus must be above 0 and finite, not '{part}'.")
    return corpus


def read_blocks(name: str, split: str, config: DataConfig) -> Iterator[Block]:
    """Yields the pairs of one split of one corpus; raises ValueError if it cannot be read."""
    blocks = _read_blocks(name, split, config)
    if not config.source_noise:
        return blocks
    from transformer.data.source_noise import NoisyBlock

    return (NoisyBlock(block, config.source_noise) for block in blocks)


def _read_blocks(name: str, split: str, config: DataConfig) -> Iterator[Block]:
    """Yields the pairs as they are in the text."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import read_translations

        number, pairs = read_translations(name.removeprefix("tfds:"), split, source, target)
        return blocks_of_pairs(name, pairs, number)
    part = parse_split(split)
    if name == "embedded":
        pairs = part_of(_load_embedded(part.name, source, target), part.start, part.stop)
        return blocks_of_pairs(name, pairs, len(pairs))
    files = find_pair_files(name, part.name, source, target)
    return blocks_of_files(files, part, source, target)


def files_of(name: str, split: str, config: DataConfig) -> list[epath.Path]:
    """Returns the files that a split of a corpus is read from; raises ValueError if it has none."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import files_of_dataset

        return files_of_dataset(name.removeprefix("tfds:"))
    if name == "embedded":
        return [_embedded_file(source, target)[0]]
    found = find_pair_files(name, parse_split(split).name, source, target)
    return [file for files in found for file in files.files]


def load_evaluation_pairs(config: DataConfig, split: str, held_out: Pairs | None = None) -> Pairs:
    """Returns all pairs of `split` of the first corpus: a score counts every sentence.

    The sources begin with the corpus's tag, if it has one. A split that `config.held_out` names is
    a part of the training text, which is read for it unless the pairs that are held out of it are
    given. Warns of repaired lines. Raises ValueError if it cannot be read or is empty.
    """
    corpus, part = parse_corpora(config.corpus)[0], held_out_parts(config).get(split)
    repairs: dict[str, Repairs] = {}

    def decoded() -> Iterator[tuple[str, str]]:
        for block in read_blocks(corpus.name, config.train_split if part else split, config):
            found = block.decode()
            add_repairs(repairs, found.repairs)
            yield from found.pairs

    pairs = decoded() if held_out is None or not part else held_out
    pairs = held_out_pairs(pairs, part) if part else list(pairs)
    for name, found in repairs.items():
        for repair in found.named(name):
            warnings.warn(repair, stacklevel=2)
    if not pairs:
        raise ValueError(
            f"The split '{split}' of {config.corpus} is empty: nothing to evaluate on."
        )
    return [(corpus.put_tag_on(source), target) for source, target in pairs]


# ---- the kinds of corpora


def _embedded_file(source: str, target: str) -> tuple[epath.Path, bool]:
    """Returns (the file of the embedded corpus, whether the target is its first language)."""
    folder = epath.Path(str(resources.files("transformer"))) / "embedded"
    for first, second in ((source, target), (target, source)):
        path = folder / f"{first}-{second}.tsv.xz"
        if path.is_file():
            return path, first == target
    raise ValueError(
        f"The embedded corpus has no {source}-{target}; it is en-de (either way). Set "
        f"data.source_language and data.target_language, or name another data.corpus."
    )


def _load_embedded(split: str, source: str, target: str) -> Pairs:
    """Returns the pairs of a split of the embedded corpus, in either direction."""
    path, is_reversed = _embedded_file(source, target)
    lines = decode_text(lzma.decompress(path.read_bytes())).lines
    rows = [line.split("\t") for line in lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if split not in splits:
        raise ValueError(f"The embedded corpus has the splits {', '.join(splits)}, not '{split}'.")
    pairs = [(row[1], row[2]) for row in rows if row[0] == split]
    return [(b, a) for a, b in pairs] if is_reversed else pairs
