"""Sentence frames: a template per language, and fillers that bring their own forms."""

import dataclasses
import random
import re
import string

from embedded_corpus.pairs import Pair, plain_text, unit_hash

# The share of (frame, filler) combinations that only the challenge split may show.
UNSEEN_SHARE = 0.04


class Forms(dict):
    """The forms of one filler in one language by name; `str()` gives the plain form."""

    __getattr__ = dict.__getitem__

    def __str__(self):
        return self["name"]

    def __format__(self, spec):
        return str(self)


@dataclasses.dataclass(frozen=True)
class Filler:
    """What fills a slot of a frame, in both languages.

    `open_keys` name contents of an open class (dates, large numbers), each with a split of its own.
    """

    key: str
    source: Forms
    target: Forms
    open_keys: tuple[str, ...] = ()


def plain_filler(key, source, target, open_keys=()):
    """Returns a filler with one form per language."""
    return Filler(key, Forms(name=source), Forms(name=target), tuple(open_keys))


def content_of(fillers):
    """Returns the keys that a pair is split by: of open classes, or else the combination."""
    open_keys = {key for filler in fillers for key in filler.open_keys}
    return tuple(sorted(open_keys)) or ("+".join(sorted(f.key for f in fillers)),)


def read_frames(text):
    """Parses blocks of two lines: [(source template, target template, slot names)]."""
    frames = []
    for block in text.strip().split("\n\n"):
        source, target = block.split("\n")
        slots = [
            {name.split(".")[0] for _, name, _, _ in string.Formatter().parse(template) if name}
            for template in (source, target)
        ]
        if slots[0] != slots[1]:
            raise ValueError(
                f"both sides of a frame must use the same slots, got {slots} in {block!r}"
            )
        frames.append((source, target, sorted(slots[0])))
    return frames


def finish_sentence(text):
    """Capitalises the first letter and closes the gap that an empty form leaves."""
    text = re.sub(r" +([.,?])", r"\1", plain_text(text))
    return text[0].upper() + text[1:]


def choose_fillers(slots, table, rng):
    """Draws a filler for each slot, no two alike."""
    while True:
        fillers = {slot: table.slots[slot](rng) for slot in slots}
        if len({filler.key for filler in fillers.values()}) == len(slots):
            return fillers


def is_unseen(source, fillers):
    """Whether only the challenge split may show one of these fillers in this frame.

    Fillers of an open class, as a date, are new in a frame anyway.
    """
    return any(
        unit_hash(f"unseen/{source}/{filler.key}") < UNSEEN_SHARE
        for filler in fillers.values()
        if not filler.open_keys
    )


def make_sentences(table, num_pairs, seed):
    """Fills the frames in turn until there are `num_pairs` pairs."""
    rng = random.Random(f"{seed}/frames")
    frames = read_frames(table.frames)
    for index in range(num_pairs):
        source, target, slots = frames[index % len(frames)]
        fillers = choose_fillers(slots, table, rng)
        unseen = is_unseen(source, fillers)
        yield Pair(
            "unseen combination" if unseen else "sentence",
            finish_sentence(source.format(**{s: f.source for s, f in fillers.items()})),
            finish_sentence(target.format(**{s: f.target for s, f in fillers.items()})),
            content_of(fillers.values()),
        )
