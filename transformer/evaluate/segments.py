"""The sentences of a test set one by one: the worst, the best, lengths and faults."""

import math
from dataclasses import asdict, dataclass

from transformer.evaluate import metrics
from transformer.evaluate.output_checks import count_faults, find_faults, split_units

LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 60), (61, None))  # units of the source


@dataclass
class Segment:
    """One sentence of a test set. chrf: of it alone; score: log_prob over the length penalty."""

    number: int  # of its line, from 1
    source: str
    reference: str
    translation: str
    chrf: float
    log_prob: float
    score: float
    reference_log_prob: float
    faults: list[str]

    def to_json(self):
        """The fields; of a reference too long to be scored, null."""
        missing = {"reference_log_prob": None} if math.isnan(self.reference_log_prob) else {}
        return asdict(self) | missing


def make_segments(sources, references, found, reference_log_probs, languages):
    """A `Segment` a sentence. found: (translation, log_prob, score); languages: of both sides."""
    chrf = metrics.sentence_chrf([row[0] for row in found], references)
    rows = zip(sources, references, found, chrf, reference_log_probs, strict=True)
    return [
        Segment(
            number, source, reference, row[0], chrf, *row[1:], reference_log_prob,
            find_faults(source, row[0], *languages),
        )
        for number, (source, reference, row, chrf, reference_log_prob) in enumerate(rows, start=1)
    ]  # fmt: skip


def text_sides(segments):
    """(translations, references)."""
    return [s.translation for s in segments], [s.reference for s in segments]


def worst_and_best(segments, count=5):
    """The segments with the lowest and with the highest chrF, of equals the longest best.

    None is among both.
    """
    ordered = sorted(segments, key=lambda s: (s.chrf, len(s.reference), s.number))
    return ordered[:count], ordered[count:][::-1][:count]


def score_by_length(segments, unit, score):
    """[{"from", "to", "score"}] for each range of source lengths in which there is a sentence.

    unit: "words" or "characters"; score: (translations, references) -> `Score`.
    """
    lengths = [len(split_units(segment.source, unit)) for segment in segments]
    rows = []
    for low, high in LENGTHS:
        is_inside = [low <= length <= (high or length) for length in lengths]
        inside = [segment for segment, keep in zip(segments, is_inside, strict=True) if keep]
        if inside:
            rows.append({"from": low, "to": high, "score": score(*text_sides(inside))})
    return rows


def describe_outputs(segments, languages, tokenize):
    """How many translations, and how many references, have which fault; and how long they are."""
    of_references = [find_faults(s.source, s.reference, *languages) for s in segments]
    ours, theirs = metrics.count_tokens(*text_sides(segments), tokenize=tokenize)
    return {
        "translations": count_faults(segment.faults for segment in segments),
        "references": count_faults(of_references),
        "num_tokens": {"translations": ours, "references": theirs},
        "length_ratio": ours / max(theirs, 1),
    }
