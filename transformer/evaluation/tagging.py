"""Evaluates the labels of words: their accuracy, and the F1 of entities in the BIO notation."""

from collections.abc import Sequence
from dataclasses import replace

from transformer.console import quantity
from transformer.evaluation.scores import Score, accuracy
from transformer.evaluation.task_scores import SimpleScores
from transformer.inference.encoders import Tagger

NUM_SAMPLES = 3
Entity = tuple[str, int, int]  # type, number of the first word, that behind the last


def entities(labels: Sequence[str]) -> list[Entity]:
    """Returns the entities that the labels of a text spell, as CoNLL's script reads them.

    B-X begins an entity of type X. I-X continues one of the same type, or begins one if there is
    none.

    >>> entities("B-PER I-PER O I-ORG B-ORG I-PER".split())
    [('PER', 0, 2), ('ORG', 3, 4), ('ORG', 4, 5), ('PER', 5, 6)]
    """
    found: list[Entity] = []
    kind, start = "", 0  # of the entity that is open; "": none is
    for place, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-")
        if kind and (prefix != "I" or name != kind):
            found.append((kind, start, place))
            kind = ""
        if prefix in ("B", "I") and not kind:
            kind, start = name, place
    return found


def score_labels(
    expected: Sequence[Sequence[str]], found: Sequence[Sequence[str]], direction: str
) -> dict[str, Score]:
    """Returns the accuracy of words and, where entities are expected, their F1, which comes first.

    An entity is right if its type and its first and last word are. direction: as of `Score`.
    """
    pairs = list(zip(expected, found, strict=True))
    is_right = [a == b for side in pairs for a, b in zip(*side, strict=True)]
    scores = {"accuracy": replace(accuracy(is_right, direction), unit="words")}
    there, given = ([{*entities(labels)} for labels in side] for side in (expected, found))
    num_right = sum(len(a & b) for a, b in zip(there, given, strict=True))
    num_there, num_given = (sum(map(len, side)) for side in (there, given))
    if num_there:
        f1 = 200 * num_right / (num_there + num_given)
        shares = f"precision:{num_right / max(1, num_given):.1%}|recall:{num_right / num_there:.1%}"
        score = Score("entity F1", f1, f"bio|{shares}", direction, num_there, unit="entities")
        scores = {"f1": score, **scores}
    return scores


def evaluate_tagger(
    tagger: Tagger, texts: Sequence[str], labels: Sequence[str], corpus: str
) -> SimpleScores:
    """Returns the scores of a tagger on texts whose words have `labels`, with spaces between."""
    found, expected = tagger.tag(texts), [row.split() for row in labels]
    rows = [
        {"text": text, "labels": label, "found": " ".join(answer)}
        for text, label, answer in zip(texts, labels, found, strict=True)
    ]
    texts_cut = f"{quantity(tagger.num_truncated, 'text')} cut at data.row_length tokens"
    return SimpleScores(
        checkpoint=tagger.run.checkpoint,
        corpus=corpus,
        scores=score_labels(expected, found, f"{len(tagger.labels.names)} labels"),
        details=[f"{texts_cut}: the rest counts as wrong"] if tagger.num_truncated else [],
        samples=[
            f"  text    {row['text']}\n  labels  {row['labels']}\n  found   {row['found']}\n"
            for row in rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]
        ],
        rows=rows,
    )
