"""Filters the pairs and splits them by the hash of their content, so that no content leaks."""

import collections

from embedded_corpus.pairs import unit_hash

# Of all contents; pairs with several contents land in test more often than this.
TEST_SHARE, VALIDATION_SHARE = 0.03, 0.015
MAX_IDENTICAL_SHARE = 0.02
# Kinds that the challenge split holds; "name" is the atomic lexicon, all of it in train.
CHALLENGE_KINDS = {
    "unseen combination",
    "larger number in words",
    "larger amount",
    "earlier date",
    "longer list",
}
SPLIT_SIZES = {"train": 40_000, "validation": 500, "test": 1_000, "challenge": 500}


def unique_pairs(pairs, dropped):
    """Yields one pair per text, and no source that has two targets."""
    targets = collections.defaultdict(set)
    for pair in pairs:
        targets[pair.source].add(pair.target)
    seen = set()
    for pair in pairs:
        if len(targets[pair.source]) > 1:
            dropped["ambiguous source"] += 1
        elif pair.source in seen:
            dropped["repeated pair"] += 1
        else:
            seen.add(pair.source)
            yield pair


def limit_identical(pairs, dropped):
    """Caps the pairs whose translation is a copy; the hash chooses which ones stay."""
    identical = sorted(
        (pair for pair in pairs if pair.source == pair.target),
        key=lambda pair: unit_hash(pair.source),
    )
    excess = set(identical[int(MAX_IDENTICAL_SHARE * len(pairs)) :])
    dropped["identical pair beyond the cap"] += len(excess)
    return [pair for pair in pairs if pair not in excess]


def content_split(content):
    """Returns the split of a content, by its hash."""
    position = unit_hash(f"split/{content}")
    if position < TEST_SHARE:
        return "test"
    return "validation" if position < TEST_SHARE + VALIDATION_SHARE else "train"


def split_of(pair):
    """Returns a split name, or None if the contents belong to different held-out splits."""
    if pair.kind == "name":
        return "train"
    held_out = {content_split(content) for content in pair.content} - {"train"}
    if pair.kind in CHALLENGE_KINDS:
        return "challenge"
    if len(held_out) > 1:
        return None
    return held_out.pop() if held_out else "train"


def drop_shared_texts(splits, dropped):
    """Drops pairs of train whose text a held-out pair has: "4/5" is also 5 April."""
    held_out = [pair for name, pairs in splits.items() if name != "train" for pair in pairs]
    sources = {pair.source for pair in held_out}
    targets = {pair.target for pair in held_out}
    kept, lexicon_texts = [], set()
    for pair in splits["train"]:
        shared = pair.source in sources or pair.target in targets
        if shared and pair.kind == "name":
            lexicon_texts |= {pair.source, pair.target}
        if not shared or pair.kind == "name":
            kept.append(pair)
    dropped["train pair that shares a text with a held-out one"] += len(splits["train"]) - len(kept)
    clean = {
        name: [
            pair
            for pair in pairs
            if name == "train" or not {pair.source, pair.target} & lexicon_texts
        ]
        for name, pairs in splits.items()
    }
    return {**clean, "train": kept}


def choose(pairs, limit):
    """Takes the whole lexicon and the rarer challenges, then a sample by the hash of the text."""
    common = {"unseen combination": 1, "name": -1}
    ranked = sorted(
        pairs, key=lambda pair: (common.get(pair.kind, 0), unit_hash(f"order/{pair.source}"))
    )
    return sorted(ranked[:limit], key=lambda pair: unit_hash(f"shuffle/{pair.source}"))


def split_pairs(pairs, dropped):
    """Returns {split: pairs} of the sizes in `SPLIT_SIZES`."""
    kept = limit_identical(list(unique_pairs(pairs, dropped)), dropped)
    splits = {name: [] for name in SPLIT_SIZES}
    for pair in kept:
        name = split_of(pair)
        if name is None:
            dropped["contents in two held-out splits"] += 1
        else:
            splits[name].append(pair)
    splits = drop_shared_texts(splits, dropped)
    chosen = {name: choose(splits[name], limit) for name, limit in SPLIT_SIZES.items()}
    dropped["more than the split holds"] += sum(map(len, splits.values())) - sum(
        map(len, chosen.values())
    )
    check_splits(chosen)
    return chosen


def check_splits(splits):
    """Raises ValueError if a text or an open content is both in train and held out."""

    def texts(names, field):
        return {getattr(pair, field) for name in names for pair in splits[name]}

    for field in ("source", "target"):
        shared = texts(["train"], field) & texts(["validation", "test", "challenge"], field)
        if shared:
            raise ValueError(
                f"{len(shared)} {field}s are in train and held out, e.g. {min(shared)!r}"
            )
    contents = {
        name: {content for pair in splits[name] for content in pair.content} for name in splits
    }
    held_out = {
        content
        for content in contents["validation"] | contents["test"]
        if content_split(content) != "train"
    }
    if held_out & contents["train"] or len(texts(splits, "source")) != sum(
        map(len, splits.values())
    ):
        raise ValueError("a held-out content is in train, or a source occurs twice")
