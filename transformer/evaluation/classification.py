"""Evaluates labels: of whole examples, or of each word, with the F1 of entities in BIO notation."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transformer.console import quantity
from transformer.evaluation.scores import Score, TaskScores, accuracy, plain_table, samples
from transformer.inference.encoders import Classifier, Tagger

MOST_IN_TABLE = 40  # classes, or pairs of them


def evaluate_classifier(
    classifier: Classifier,
    examples: Sequence[str] | np.ndarray,
    labels: Sequence[str],
    corpus: str,
) -> TaskScores:
    """Returns the scores of a classifier on `examples`, whose true classes are `labels`.

    examples: as `Classifier.classify` takes them. corpus: the name of the test set. Raises
    ValueError for a label that is none of the run's classes.
    """
    names = classifier.labels.names
    for label in set(labels).difference(names):
        known = ", ".join(names)
        raise ValueError(f"The references are classes of the run ({known}), not {label!r}.")
    answers = classifier.classify(examples)
    rows = [
        {
            "text": example if isinstance(example, str) else None,
            "label": label,
            "found": answer.label,
            "probabilities": answer.probabilities,
        }
        for example, label, answer in zip(examples, labels, answers, strict=True)
    ]
    pairs = [(row["label"], row["found"]) for row in rows]
    details = _confusion_lines(names, Counter(pairs))
    if classifier.num_truncated:
        sentences = quantity(classifier.num_truncated, "sentence")
        details.append(f"{sentences} cut at data.row_length tokens")
    return TaskScores(
        checkpoint=classifier.run.checkpoint,
        corpus=corpus,
        scores={"accuracy": accuracy([a == b for a, b in pairs], f"{len(names)} classes")},
        details=details,
        samples=samples(
            ("text", "class", "found"),
            (
                {"text": text, "class": label, "found": f"{answer} ({answer.probability:.0%})"}
                for text, label, answer in zip(examples, labels, answers, strict=True)
                if isinstance(text, str)
            ),
        ),
        rows=rows,
    )


def _confusion_lines(names: Sequence[str], confusions: Counter[tuple[str, str]]) -> list[str]:
    """Returns a table of classes, or of many classes the pairs that are confused most often.

    confusions: number of examples per (true, found) class.
    """
    if len(names) > MOST_IN_TABLE:
        wrong = Counter({pair: n for pair, n in confusions.items() if pair[0] != pair[1]})
        most = wrong.most_common(MOST_IN_TABLE)
        title = f"the {len(most)} most frequent confusions of {len(wrong):,}:"
        rows = [["class", "found", "examples"], *([*pair, f"{count:,}"] for pair, count in most)]
        return [title, *plain_table(rows, "llr")]
    rows = [["", *names, "recall"]]
    for true in names:
        counts = [confusions[true, name] for name in names]
        recall = confusions[true, true] / max(1, sum(counts))
        rows.append([true, *(f"{count:,}" for count in counts), f"{recall:.1%}"])
    title = "examples of each class (rows), by the class that was found (columns):"
    return [title, *plain_table(rows, "lr")]


def evaluate_tagger(
    tagger: Tagger, texts: Sequence[str], labels: Sequence[str], corpus: str
) -> TaskScores:
    """Returns the scores of a tagger on texts whose words have `labels`, with spaces between."""
    answers = tagger.tag(texts)
    rows = [
        {"text": text, "labels": label, "found": " ".join(answer)}
        for text, label, answer in zip(texts, labels, answers, strict=True)
    ]
    texts_cut = f"{quantity(tagger.num_truncated, 'text')} cut at data.row_length tokens"
    expected, direction = [row.split() for row in labels], f"{len(tagger.labels.names)} labels"
    return TaskScores(
        checkpoint=tagger.run.checkpoint,
        corpus=corpus,
        scores=score_labels(expected, answers, direction),
        details=[f"{texts_cut}: the rest counts as wrong"] if tagger.num_truncated else [],
        samples=samples(("text", "labels", "found"), rows),
        rows=rows,
    )


def score_labels(
    expected: Sequence[Sequence[str]], answers: Sequence[Sequence[str]], direction: str
) -> dict[str, Score]:
    """Returns the accuracy of words and, where entities are expected, their F1, which comes first.

    An entity is right if its type and its first and last word are. direction: as of `Score`.
    """
    rows = zip(expected, answers, strict=True)
    is_right = [a == b for row in rows for a, b in zip(*row, strict=True)]
    scores = {"accuracy": accuracy(is_right, direction, unit="words")}
    spans, answer_spans = (
        {(row, *span) for row, labels in enumerate(side) for span in entities(labels)}
        for side in (expected, answers)
    )
    if spans:
        num_right = len(spans & answer_spans)
        precision, recall = num_right / max(1, len(answer_spans)), num_right / len(spans)
        signature = f"bio|precision:{precision:.1%}|recall:{recall:.1%}"
        f1 = 200 * num_right / (len(spans) + len(answer_spans))
        f1_score = Score("entity F1", f1, signature, direction, len(spans), unit="entities")
        scores = {"f1": f1_score, **scores}
    return scores


def entities(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns (type, first word, word behind the last) of each entity, as in CoNLL's script.

    B-X begins an entity of type X. I-X continues one of the same type, or begins one.

    >>> entities("B-PER I-PER O I-ORG B-ORG I-PER".split())
    [('PER', 0, 2), ('ORG', 3, 4), ('ORG', 4, 5), ('PER', 5, 6)]
    """
    spans: list[tuple[str, int, int]] = []
    kind, start = "", 0  # of the entity that is open; "": none is
    for place, label in enumerate([*labels, "O"]):
        prefix, _, name = label.partition("-")
        if kind and (prefix != "I" or name != kind):
            spans.append((kind, start, place))
            kind = ""
        if prefix in ("B", "I") and not kind:
            kind, start = name, place
    return spans
