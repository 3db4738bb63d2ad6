"""The name of a split -> which part of what: "train[10%:90%]", in the words of TFDS."""

import re

SPLIT = re.compile(r"([^\[\]]+)(?:\[(?:(\d+)%)?:(?:(\d+)%)?\])?")


def parse_split(text):
    """ "train[:90%]" -> ("train", 0.0, 0.9); "test" -> ("test", 0.0, 1.0)."""
    match = SPLIT.fullmatch(text)
    start, stop = (int(match[i] or whole) for i, whole in ((2, 0), (3, 100))) if match else (1, 0)
    if not start < stop <= 100:
        raise ValueError(
            f"A split is NAME, or a part of it as NAME[:90%] or NAME[90%:], not '{text}'."
        )
    return match[1], start / 100, stop / 100


def part_of(items, start, stop):
    """The items (a list, text or array) from one share of their number to another."""
    first, end = (round(100 * share) * len(items) // 100 for share in (start, stop))
    return items[first:end]


def folder_name(split):
    """A folder's name for a split: "train[:90%]" -> "train_0_90_", "train[90%:]" -> "train_90_"."""
    return re.sub(r"[^\w.-]+", "_", split.replace("[:", "[0%:"))
