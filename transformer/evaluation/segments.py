"""The sentences of a test set one by one: the best and the worst, by length, with their faults."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from transformer.evaluation import metrics
from transformer.evaluation.output_checks import count_faults, find_faults, split_units
from transformer.evaluation.scores import Score
from transformer.inference.translation import Translation

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, None))  # units of the source


@dataclass
class Segment:
    """One sentence of a test set.

    number: of its line, from 1. chrf: the chrF2 of this sentence alone. log_prob: of the
    translation, in nats; score: `log_prob` over the length penalty. reference_log_prob: nan for a
    reference too long to be scored. faults: as `output_checks.find_faults` returns them.
    other_references: besides the first, if there are several.
    """

    number: int
    source: str
    reference: str
    translation: str
    chrf: float
    log_prob: float
    score: float
    reference_log_prob: float
    faults: list[str]
    other_references: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns the fields for a JSON file; a missing `reference_log_prob` becomes null."""
        missing = {"reference_log_prob": None} if math.isnan(self.reference_log_prob) else {}
        fields = asdict(self) | missing
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
    rows = zip(sources, references, translations, chrf, reference_log_probs, strict=True)
    return [
        Segment(
            number=number,
            source=source,
            reference=metrics.all_references(reference)[0],
            translation=translation.text,
            chrf=sentence_chrf,
            log_prob=translation.log_prob,
            score=translation.score,
            reference_log_prob=reference_log_prob,
            faults=find_faults(source, translation.text, *languages),
            other_references=metrics.all_references(reference)[1:],
        )
        for number, (source, reference, translation, sentence_chrf, reference_log_prob) in (
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


class LengthScore(NamedTuple):
    """The score of the sentences whose sources have `low` to `high` units (None: no end)."""

    low: int
    high: int | None
    score: Score

    @property
    def lengths(self) -> str:
        """The range as printed: "11–20", "61 and more"."""
        return f"{self.low}–{self.high}" if self.high else f"{self.low} and more"

    def to_json(self) -> dict[str, Any]:
        """Returns the row of report.json."""
        return {"from": self.low, "to": self.high, "score": self.score.to_json()}


def score_by_length(
    segments: Sequence[Segment], unit: str, score: Callable[..., Score]
) -> list[LengthScore]:
    """Returns the score of each range of `LENGTHS` that holds a sentence.

    unit: of lengths, "words" or "characters". score: (translations, references) -> `Score`.
    """
    lengths = [len(split_units(segment.source, unit)) for segment in segments]
    rows = []
    for low, high in LENGTHS:
        is_inside = [low <= length <= (high or length) for length in lengths]
        inside = [segment for segment, keep in zip(segments, is_inside, strict=True) if keep]
        if inside:
            rows.append(LengthScore(low, high, score(*text_sides(inside))))
    return rows


def describe_outputs(
    segments: Sequence[Segment], languages: tuple[str, str], tokenize: str
) -> dict[str, Any]:
    """Counts the faults and the tokens of the translations and, beside them, of the references.

    tokenize: BLEU's, for the tokens. Returns the object "outputs" of report.json.
    """
    reference_faults = [find_faults(s.source, s.reference, *languages) for s in segments]
    ours, theirs = metrics.count_tokens(*text_sides(segments), tokenize=tokenize)
    return {
        "translations": count_faults(segment.faults for segment in segments),
        "references": count_faults(reference_faults),
        "num_tokens": {"translations": ours, "references": theirs},
        "length_ratio": ours / max(theirs, 1),
    }
