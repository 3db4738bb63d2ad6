"""A name or files -> pairs of (source, target) strings, in order; what is left out is counted.

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

import numpy as np

from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import decode_text, describe_folder, find_file, read_text


def parse_corpora(text):
    """ "a@2,b" -> [("a", 2.0), ("b", 1.0)]: a weight says how often an epoch shows each pair."""
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


class TrainingPairs(NamedTuple):
    """Sentence pairs, how often an epoch shows each, and the lines skipped or repaired."""

    pairs: list[tuple[str, str]]
    weights: np.ndarray  # [number of pairs] float32
    problems: Counter[str]  # number of lines or pairs by reason


def load_training_pairs(config):
    """All training pairs of a `DataConfig`.

    Pairs with an empty side are skipped, and those of two equal sides if the config says so.
    """
    pairs, weights, problems = [], [], Counter()
    for name, weight in parse_corpora(config.corpus):
        read, repairs = load_pairs(name, config.train_split, config)
        problems.update(repairs)
        reasons = [_reason_to_skip(pair, config) for pair in read]
        problems.update(filter(None, reasons))
        kept = [pair for pair, reason in zip(read, reasons, strict=True) if reason is None]
        pairs += kept
        weights.append(np.full(len(kept), weight, np.float32))
    if not pairs:
        raise ValueError(
            f"The split '{config.train_split}' of {config.corpus} holds no pair to train on "
            f"(left out: {dict(problems) or 'nothing'})."
        )
    return TrainingPairs(pairs, np.concatenate(weights), problems)


def load_evaluation_pairs(config, split):
    """The pairs of `split` of the first corpus, every one of them: a score counts each sentence."""
    pairs, repairs = load_pairs(parse_corpora(config.corpus)[0][0], split, config)
    for repair in repairs:
        warnings.warn(repair, stacklevel=2)
    if not pairs:
        raise ValueError(
            f"The split '{split}' of {config.corpus} is empty: nothing to evaluate on."
        )
    return pairs


def load_pairs(name, split, config):
    """(pairs of one split of one corpus, number of lines that were repaired by what was wrong)."""
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


def _reason_to_skip(pair, config):
    source, target = (side.strip() for side in pair)
    if not source or not target:
        return "an empty side"
    if config.drop_identical and source == target:
        return "equal sides"
    return None


def _load_embedded(split, source, target):
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
    rows = [line.split("\t") for line in decode_text(lzma.decompress(path.read_bytes())).lines]
    splits = list(dict.fromkeys(row[0] for row in rows))
    if split not in splits:
        raise ValueError(f"The embedded corpus has the splits {', '.join(splits)}, not '{split}'.")
    pairs = [(row[1], row[2]) for row in rows if row[0] == split]
    return pairs if first == source else [(b, a) for a, b in pairs]


def _load_folder(folder, split, source, target):
    tsv = find_file(folder, f"{split}.tsv")
    if tsv:
        return _read_tsv(tsv)
    paths = [find_file(folder, f"{split}.{language}") for language in (source, target)]
    if None in paths:
        wanted = (
            f"{split}.{source} and {split}.{target} (or {split}.tsv; each may end in .gz or .xz)"
        )
        raise ValueError(
            f"The corpus folder {folder} must hold {wanted}; {describe_folder(folder)}."
        )
    texts = [read_text(path) for path in paths]
    sides = [text.lines for text in texts]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"The two sides must have equally many lines, but {paths[0]} has {len(sides[0])} and "
            f"{paths[1]} has {len(sides[1])}."
        )
    return list(zip(*sides, strict=True)), texts[0].repairs + texts[1].repairs


def _read_tsv(path):
    lines, repairs = read_text(path)
    rows = [line.split("\t") for line in lines]
    for number, row in enumerate(rows, 1):
        if len(row) != 2:
            raise ValueError(
                f"{path} line {number} must be SOURCE<tab>TARGET, but has {len(row)} columns."
            )
    return [tuple(row) for row in rows], repairs
