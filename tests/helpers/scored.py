"""Evaluations of texts that a test writes itself, without a model."""

from transformer.evaluate.evaluation import EvaluationSettings, make_evaluation
from transformer.evaluate.segments import make_segments

CORPUS = [  # (source, reference, translation)
    ("a dog runs", "ein Hund rennt", "ein Hund rennt"),
    ("a cat sleeps on the old mat", "eine Katze schläft auf der alten Matte", "eine Katze schläft"),
    ("two men look at a red car", "zwei Männer sehen ein rotes Auto an", "zwei Männer sehen an"),
    ("she reads", "sie liest", "er liest viel"),
    ("one " * 14, "eins " * 14, "eins " * 12),
    ("rain falls on the roof of the barn", "Regen fällt auf das Dach", "Regen fällt auf das Dach"),
]


def evaluation(
    rows=CORPUS, *, checkpoint="last (20)", tokenize="13a", selection_metric="bleu", maps=()
):
    """An `Evaluation` of (source, reference, translation); every reference costs 2 nats a word."""
    about = (checkpoint, "own", "en", "de", tokenize, 100, 256, {"beam_size": 4})
    settings = EvaluationSettings(*about, selection_metric)
    sources, references, translations = (list(side) for side in zip(*rows, strict=True))
    counts = [len(reference.split()) + 1 for reference in references]
    found = [(translation, -1.0, -0.5) for translation in translations]
    log_probs = [-2.0 * count for count in counts]
    segments = make_segments(sources, references, found, log_probs, settings.languages)
    result = make_evaluation(settings, segments, counts)
    result.maps = list(maps)
    return result
