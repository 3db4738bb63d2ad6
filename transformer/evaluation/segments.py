"""The sentences of a test set one by one: their faults, the best and the worst, scores by length.

Faults are those that show without a reference: empty, copied or repeating text.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from transformer.data.corpora.languages import has_spaces
from transformer.evaluation import metrics
from transformer.evaluation.scores import Score
from transformer.inference.translation import Translation

# What counts as which fault, in the words of the report.
FAULTS = {
    "empty": "nothing, although the source has text",
    "copied": "the source again, but for case and the spaces around it",
    "repeating": (
        "one to four words four times in a row, or the same four words three times, where the "
        "source does not do so too; case does not count"
    ),
}
RANGES = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60))  # units of the source
LENGTHS = {f"{low}–{high}": (low, high) for low, high in RANGES} | {"61 and more": (61, None)}


@dataclass
class Segment:
    """One sentence of a test set.

    number: of its line, from 1. chrf: the chrF2 of this sentence alone. log_prob: of the
    translation, in nats; score: `log_prob` over the length penalty. reference_log_prob: None for a
    reference too long to be scored. faults: names of `FAULTS`. other_references: besides the first,
    if there are several.
    """

    number: int
    source: str
    reference: str
    translation: str
    chrf: float
    log_prob: float
    score: float
    reference_log_prob: float | None
    faults: list[str]
    other_references: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the fields for a JSON file."""
        fields = asdict(self)
        if not self.other_references:
            del fields["other_references"]
        return fields


def make_segments(
    sources: Sequence[str],
    references: Sequence[metrics.Reference],
    translations: Sequence[Translation],
    reference_log_probs: Sequence[float],
    languages: tuple[str, str],
) -> list[Segment]:
    """Returns one `Segment` per sentence; languages: of the sources and of the references."""
    chrf = metrics.sentence_chrf([t.text for t in translations], references)
    several = map(metrics.all_references, references)
    rows = zip(sources, several, translations, chrf, reference_log_probs, strict=True)
    return [
        Segment(
            number=number,
            source=source,
            reference=first,
            translation=translation.text,
            chrf=sentence_chrf,
            log_prob=translation.log_prob,
            score=translation.score,
            reference_log_prob=None if math.isnan(reference) else reference,
            faults=find_faults(source, translation.text, languages),
            other_references=tuple(others),
        )
        for number, (source, (first, *others), translation, sentence_chrf, reference) in (
            enumerate(rows, start=1)
        )
    ]


def text_sides(segments: Sequence[Segment]) -> tuple[list[str], list[metrics.Reference]]:
    """Returns (translations, references)."""
    references: list[metrics.Reference] = [(s.reference, *s.other_references) for s in segments]
    return [s.translation for s in segments], references


def worst_and_best(
    segments: Sequence[Segment], count: int = 5
) -> tuple[list[Segment], list[Segment]]:
    """Returns the `count` segments with the lowest chrF and, of the others, those with the highest.

    Of equal segments the longest counts as the best.
    """
    ordered = sorted(segments, key=lambda s: (s.chrf, len(s.reference), s.number))
    return ordered[:count], ordered[count:][::-1][:count]


def score_by_length(
    segments: Sequence[Segment], unit: str, score: Callable[..., Score]
) -> dict[str, Score]:
    """Returns the score of each of the `LENGTHS` that a sentence has.

    unit: of lengths, "words" or "characters". score: (translations, references) -> `Score`.
    """
    scores = {}
    lengths = [len(split_text(segment.source, unit)) for segment in segments]
    for name, (low, high) in LENGTHS.items():
        is_inside = [low <= length <= (high or length) for length in lengths]
        inside = [segment for segment, keep in zip(segments, is_inside, strict=True) if keep]
        if inside:
            scores[name] = score(*text_sides(inside))
    return scores


def describe_outputs(
    segments: Sequence[Segment], languages: tuple[str, str], tokenize: str
) -> dict[str, Any]:
    """Counts the faults and the tokens of the translations and, beside them, of the references.

    tokenize: BLEU's, for the tokens. Returns the object "outputs" of report.json.
    """
    reference_faults = [find_faults(s.source, s.reference, languages) for s in segments]
    tokens, reference_tokens = metrics.count_tokens(*text_sides(segments), tokenize=tokenize)
    return {
        "translations": count_faults(segment.faults for segment in segments),
        "references": count_faults(reference_faults),
        "num_tokens": {"translations": tokens, "references": reference_tokens},
        "length_ratio": tokens / max(reference_tokens, 1),
    }


def word_unit(language: str) -> str:
    """Returns what texts of a language (de, jpn_Jpan) are split into: "words" or "characters"."""
    return "words" if has_spaces(language) else "characters"


def split_text(text: str, unit: str) -> list[str]:
    """Splits a text into "words" (at spaces) or "characters" (without the spaces)."""
    return text.split() if unit == "words" else list("".join(text.split()))


def find_faults(source: str, translation: str, languages: tuple[str, str]) -> list[str]:
    """Returns the names of the `FAULTS` that a translation has; languages: of the two texts."""
    source, translation = source.strip().casefold(), translation.strip().casefold()
    if not translation:
        return ["empty"] if source else []
    faults = ["copied"] if translation == source else []
    source_loops, translation_loops = (
        has_loop(split_text(text, word_unit(language)))
        for text, language in zip((source, translation), languages, strict=True)
    )
    return faults + ["repeating"] * (translation_loops and not source_loops)


def count_faults(faults: Iterable[Sequence[str]]) -> dict[str, int]:
    """Counts each fault in the lists that `find_faults` returned; those that never occur are 0."""
    counts = Counter(name for names in faults for name in names)
    return {name: counts[name] for name in FAULTS}


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
