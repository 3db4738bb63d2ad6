"""Reads sentence pairs, in order, and counts those that are skipped.

A corpus is `embedded`, a folder (`train.en` + `train.de`, or `train.tsv`; each may end in .gz or
.xz) or `tfds:NAME` for any TFDS dataset with a `Translation` feature.
"""

import lzma
import math
import warnings
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from transformer.config import DataConfig
from transformer.data.epoch_pairs import CorpusPart
from transformer.data.held_out import HeldOut, held_out_pairs, held_out_parts
from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import (
    decode_text,
    describe_folder,
    find_file,
    name_in_folder,
    read_text,
)

Pairs = list[tuple[str, str]]  # (source, target)


class TrainingPairs(NamedTuple):
    """Sentence pairs to train on."""

    pairs: Pairs
    parts: list[CorpusPart]  # the corpora that they come from, in order, with their weights
    problems: Counter[str]  # number of lines or pairs that were skipped or repaired, by reason


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


def load_training_pairs(config: DataConfig) -> TrainingPairs:
    """Reads the training split of every corpus and skips pairs that may not or need not be seen.

    The former are those that `config.held_out` keeps for other splits; the latter have an empty
    side or, if `config.drop_identical`, two equal sides. Raises ValueError if a corpus cannot be
    read, or no pair is left.
    """
    pairs, parts, problems = [], [], Counter()
    held_out: HeldOut | None = None  # of the first corpus, out of which it is held
    for name, weight in parse_corpora(config.corpus):
        found, repairs = _load_pairs(name, config.train_split, config)
        problems.update(repairs)
        if config.held_out:
            held_out = held_out or HeldOut(found, config)
            found, reasons = held_out.split_off(found)
            problems.update(reasons)
        useless = [_reason_to_skip(*pair, config) for pair in found]
        problems.update(reason for reason in useless if reason)
        kept = [pair for pair, reason in zip(found, useless, strict=True) if not reason]
        pairs += kept
        parts.append(CorpusPart(len(kept), weight))
    if not pairs:
        raise ValueError(
            f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
            f"(left out: {dict(problems) or 'nothing'})."
        )
    return TrainingPairs(pairs, parts, problems)


def load_evaluation_pairs(config: DataConfig, split: str) -> Pairs:
    """Returns all pairs of `split` of the first corpus: a score counts every sentence.

    A split that `config.held_out` names is a part of the training text. Warns of repaired lines.
    Raises ValueError if it cannot be read or is empty.
    """
    corpus, part = parse_corpora(config.corpus)[0][0], held_out_parts(config).get(split)
    pairs, repairs = _load_pairs(corpus, config.train_split if part else split, config)
    if part:
        pairs = held_out_pairs(pairs, part)
    for repair in repairs:
        warnings.warn(repair, stacklevel=2)
    if not pairs:
        raise ValueError(
            f"The split '{split}' of {config.corpus} is empty: nothing to evaluate on."
        )
    return pairs


def _load_pairs(name: str, split: str, config: DataConfig) -> tuple[Pairs, Counter[str]]:
    """Returns (pairs of one split of one corpus, number of repaired lines by reason)."""
    source, target = config.source_language, config.target_language
    if name.startswith("tfds:"):
        from transformer.data.tfds import load_translations

        return load_translations(name.removeprefix("tfds:"), split, source, target), Counter()
    split, start, stop = parse_split(split)
    if name == "embedded":
        pairs, repairs = _load_embedded(split, source, target), Counter()
    else:
        pairs, repairs = _load_folder(Path(name).expanduser(), split, source, target)
    return part_of(pairs, start, stop), repairs


def _reason_to_skip(source: str, target: str, config: DataConfig) -> str:
    """Returns why a pair teaches nothing, or "" if it may be trained on."""
    source, target = source.strip(), target.strip()
    if not source or not target:
        return "an empty side"
    return "equal sides" if config.drop_identical and source == target else ""


def _load_embedded(split: str, source: str, target: str) -> Pairs:
    """Returns the pairs of a split of the embedded corpus, in either direction."""
    folder = resources.files("transformer") / "embedded"
    for first, second in ((source, target), (target, source)):
        path = folder / f"{first}-{second}.tsv.xz"
        if path.is_file():
            break
    else:
        raise ValueError(
            f"The embedded corpus has no {source}-{target}; it is en-de (either way). Set "
            f"data.source_language and data.target_language, or name another data.corpus."
        )
    lines = decode_text(lzma.decompress(path.read_bytes())).lines
    rows = [line.split("\t") for line in lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if split not in splits:
        raise ValueError(f"The embedded corpus has the splits {', '.join(splits)}, not '{split}'.")
    pairs = [(row[1], row[2]) for row in rows if row[0] == split]
    return pairs if first == source else [(b, a) for a, b in pairs]


def _load_folder(folder: Path, split: str, source: str, target: str) -> tuple[Pairs, Counter[str]]:
    """Returns (pairs of a split, number of repaired lines by reason) of a folder of text files."""
    split = name_in_folder(folder, split)
    tsv = find_file(folder, f"{split}.tsv")
    if tsv:
        return _read_tsv(tsv)
    sides = [find_file(folder, f"{split}.{language}") for language in (source, target)]
    paths = [path for path in sides if path]
    if len(paths) < 2:
        wanted = (
            f"{split}.{source} and {split}.{target} (or {split}.tsv; each may end in .gz or .xz)"
        )
        raise ValueError(
            f"The corpus folder {folder} must hold {wanted}; {describe_folder(folder)}."
        )
    first, second = (read_text(path) for path in paths)
    if len(first.lines) != len(second.lines):
        raise ValueError(
            f"The two sides must have equally many lines, but {paths[0]} has {len(first.lines)} "
            f"and {paths[1]} has {len(second.lines)}."
        )
    return list(zip(first.lines, second.lines, strict=True)), first.repairs + second.repairs


def _read_tsv(path: Path) -> tuple[Pairs, Counter[str]]:
    lines, repairs = read_text(path)
    pairs = []
    for number, line in enumerate(lines, 1):
        row = line.split("\t")
        if len(row) != 2:
            raise ValueError(
                f"{path} line {number} must be SOURCE<tab>TARGET, but has {len(row)} columns."
            )
        pairs.append((row[0], row[1]))
    return pairs, repairs
