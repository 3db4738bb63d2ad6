"""Reads sentence pairs, in order, a block at a time, so that a corpus may be of any size.

A corpus is `embedded`, a folder (`train.en` + `train.de`, or `train.tsv`; each may end in .gz or
.xz) or `tfds:NAME` for any TFDS dataset with a `Translation` feature.
"""

import lzma
import math
import warnings
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from etils import epath

from transformer.config import DataConfig
from transformer.data.held_out import held_out_pairs, held_out_parts
from transformer.data.pair_blocks import (
    Block,
    Pairs,
    add_repairs,
    blocks_of_files,
    blocks_of_pairs,
)
from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import (
    Repairs,
    decode_text,
    describe_folder,
    find_file,
    name_in_folder,
)


def parse_corpora(text: str) -> list[tuple[str, float]]:
    """Parses the names of corpora and their weights: how often an epoch shows each pair.

    Raises ValueError if there is none, or a weight is not a finite number above 0.

    >>> parse_corpora("a@2,b")
    [('a', 2.0), ('b', 1.0)]
    """
    parts = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, at, weight = part.rpartition("@")
        if not at:
            name, weight = part, "1"
        try:
            parts.append((name, float(weight)))
        except ValueError:
            raise ValueError(
                f"A corpus is NAME or NAME@WEIGHT with a number as weight, not '{part}'."
            ) from None
        if not 0 < parts[-1][1] < math.inf:
            raise ValueError(f"The weight of a corpus must be above 0 and finite, not '{part}'.")
    if not parts:
        raise ValueError("data.corpus is empty; name a corpus, for example 'embedded'.")
    return parts


def read_blocks(name: str, split: str, config: DataConfig) -> Iterator[Block]:
    """Yields the pairs of one split of one corpus; raises ValueError if it cannot be read."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import read_translations

        number, pairs = read_translations(name.removeprefix("tfds:"), split, source, target)
        return blocks_of_pairs(pairs, number)
    part = parse_split(split)
    if name == "embedded":
        pairs = part_of(_load_embedded(part.name, source, target), part.start, part.stop)
        return blocks_of_pairs(pairs, len(pairs))
    return blocks_of_files(_find_files(Path(name).expanduser(), part.name, source, target), part)


def files_of(name: str, split: str, config: DataConfig) -> list[epath.Path]:
    """Returns the files that a split of a corpus is read from; raises ValueError if it has none."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import files_of_dataset

        return files_of_dataset(name.removeprefix("tfds:"))
    if name == "embedded":
        return [_embedded_file(source, target)[0]]
    found = _find_files(Path(name).expanduser(), parse_split(split).name, source, target)
    return [epath.Path(path) for path in found]


def load_evaluation_pairs(config: DataConfig, split: str, held_out: Pairs | None = None) -> Pairs:
    """Returns all pairs of `split` of the first corpus: a score counts every sentence.

    A split that `config.held_out` names is a part of the training text, which is read for it unless
    the pairs that are held out of it are given. Warns of repaired lines. Raises ValueError if it
    cannot be read or is empty.
    """
    corpus, part = parse_corpora(config.corpus)[0][0], held_out_parts(config).get(split)
    repairs: dict[str, Repairs] = {}

    def decoded() -> Iterator[tuple[str, str]]:
        for block in read_blocks(corpus, config.train_split if part else split, config):
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
    return pairs


# ---- the kinds of corpora


def _find_files(folder: Path, split: str, source: str, target: str) -> list[Path]:
    """Returns the .tsv file of a split in a folder, or the files of its two sides."""
    split = name_in_folder(folder, split)
    tsv = find_file(folder, f"{split}.tsv")
    if tsv:
        return [tsv]
    sides = [find_file(folder, f"{split}.{language}") for language in (source, target)]
    paths = [path for path in sides if path]
    if len(paths) < 2:
        wanted = (
            f"{split}.{source} and {split}.{target} (or {split}.tsv; each may end in .gz or .xz)"
        )
        raise ValueError(
            f"The corpus folder {folder} must hold {wanted}; {describe_folder(folder)}."
        )
    return paths


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
