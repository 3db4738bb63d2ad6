"""Chooses the pairs that fit a row of a batch."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from transformer.data.ragged import Ragged

LARGE_SHARE = 0.1  # of a training text; a filter that takes more is probably a mistake
SETTINGS = {"more than": "data.row_length", "a length ratio": "data.max_length_ratio"}


class Filtered(NamedTuple):
    """Which pairs may be trained on, and why the others may not."""

    kept: np.ndarray  # indices of pairs
    skipped: Counter[str]  # number of pairs by reason
    by_reason: dict[str, np.ndarray]  # their indices


def filter_by_length(
    source: Ragged, target: Ragged, row_length: int, max_length_ratio: float
) -> Filtered:
    """Finds the pairs whose sides both fit a row and are not too unequal in length.

    max_length_ratio: how many times as long as the shorter side the longer one may be; 0: no limit.
    """
    longest = np.maximum(source.lengths, target.lengths)
    shortest = np.minimum(source.lengths, target.lengths)
    too_long = longest > row_length
    uneven = ~too_long & (longest > (max_length_ratio or np.inf) * shortest)
    by_reason = {
        f"more than {row_length} pieces": np.flatnonzero(too_long),
        f"a length ratio above {max_length_ratio:g}": np.flatnonzero(uneven),
    }
    by_reason = {reason: indices for reason, indices in by_reason.items() if len(indices)}
    skipped = Counter({reason: len(indices) for reason, indices in by_reason.items()})
    return Filtered(np.flatnonzero(~too_long & ~uneven), skipped, by_reason)


def length_warnings(left_out: Mapping[str, int], num_kept: int) -> list[str]:
    """Returns a sentence for each limit of length that takes a large share of a training text.

    left_out: numbers of examples by reason, those of `filter_by_length` and perhaps others.
    """
    by_length = {
        reason: (count, setting)
        for reason, count in left_out.items()
        for start, setting in SETTINGS.items()
        if reason.startswith(start)
    }
    total = num_kept + sum(count for count, _ in by_length.values())
    return [
        f"{count / total:.0%} of the training text is left out ({reason}): raise {setting}"
        for reason, (count, setting) in by_length.items()
        if count > LARGE_SHARE * total
    ]
