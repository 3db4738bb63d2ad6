"""Faults of a translation that show without its reference: empty, copied or repeating text."""

from collections import Counter
from collections.abc import Iterable, Sequence

from transformer.data.corpora.languages import has_spaces

# What counts as which fault, in the words of the report.
DEFINITIONS = {
    "empty": "nothing, although the source has text",
    "copied": "the source again, but for case and the spaces around it",
    "repeating": (
        "one to four words four times in a row, or the same four words three times, where the "
        "source does not do so too; case does not count"
    ),
}


def word_unit(language: str) -> str:
    """Returns what texts of a language (de, jpn_Jpan) are split into: "words" or "characters"."""
    return "words" if has_spaces(language) else "characters"


def split_words(text: str, language: str) -> list[str]:
    """Splits a text at spaces, or into characters where a language puts no spaces."""
    return split_units(text, word_unit(language))


def split_units(text: str, unit: str) -> list[str]:
    """Splits a text into "words" (at spaces) or "characters" (without the spaces)."""
    return text.split() if unit == "words" else list("".join(text.split()))


def find_faults(
    source: str, translation: str, source_language: str, target_language: str
) -> list[str]:
    """Returns the names of the `DEFINITIONS` that hold for a translation."""
    ours, theirs = translation.strip().casefold(), source.strip().casefold()
    if not ours:
        return ["empty"] if theirs else []
    found = ["copied"] if ours == theirs else []
    ours_loops = has_loop(split_words(ours, target_language))
    if ours_loops and not has_loop(split_words(theirs, source_language)):
        found.append("repeating")
    return found


def count_faults(found: Iterable[Sequence[str]]) -> dict[str, int]:
    """Counts each fault in the lists that `find_faults` returned; those that never occur are 0."""
    counts = Counter(name for names in found for name in names)
    return {name: counts[name] for name in DEFINITIONS}


def has_loop(units: Sequence[str]) -> bool:
    """Whether 1 to 4 words come four times in a row, or the same four words three times.

    Words repeat with period p as long as each equals the one p positions before it. The words
    "a b a b a b a b" are (a b) four times: 6 = 3 · 2 words in a row equal the second before them.
    """
    for period in range(1, 5):
        run = 0
        for earlier, later in zip(units, units[period:], strict=False):
            run = run + 1 if earlier == later else 0
            if run == 3 * period:
                return True
    fours = Counter(zip(units, units[1:], units[2:], units[3:], strict=False))
    return max(fours.values(), default=0) >= 3
