"""What is wrong with a translation at first sight: nothing there, the source again, a loop."""

import re
from collections import Counter

# What counts as which fault, in the words of the report.
DEFINITIONS = {
    "empty": "nothing, although the source has text",
    "copied": "the source again, but for case and the spaces around it",
    "repeating": (
        "one to four words four times in a row, or the same four words at three places, where the "
        "source does not do so too; case does not count"
    ),
}
UNSPACED = ("zh", "ja", "th", "lo", "km", "my")  # languages without spaces between words


def word_unit(language):
    """What the words of a language are split into: "words", or "characters"."""
    return "characters" if re.split("[-_]", language)[0] in UNSPACED else "words"


def words(text, language):
    """The text between spaces, or the characters where a language puts no spaces."""
    return split_units(text, word_unit(language))


def split_units(text, unit):
    """The words between spaces, or the characters that are none, as `unit` says."""
    return text.split() if unit == "words" else list("".join(text.split()))


def find_faults(source, translation, source_language, target_language):
    """The names of the `DEFINITIONS` that hold for a translation."""
    ours, theirs = translation.strip().casefold(), source.strip().casefold()
    if not ours:
        return ["empty"] if theirs else []
    found = ["copied"] if ours == theirs else []
    if has_loop(words(ours, target_language)) and not has_loop(words(theirs, source_language)):
        found.append("repeating")
    return found


def count_faults(found):
    """How often each fault is among the lists that `find_faults` returned."""
    counts = Counter(name for names in found for name in names)
    return {name: counts[name] for name in DEFINITIONS}


def has_loop(units):
    """Whether 1 to 4 words come four times in a row, or the same four at three places."""
    for period in range(1, 5):
        run = 0
        for earlier, later in zip(units, units[period:], strict=False):
            run = run + 1 if earlier == later else 0
            if run == 3 * period:
                return True
    fours = Counter(zip(units, units[1:], units[2:], units[3:], strict=False))
    return max(fours.values(), default=0) >= 3
