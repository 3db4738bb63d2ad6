"""Evaluates a classifier on labelled examples: its accuracy, and which classes it confuses."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transformer.console import quantity
from transformer.evaluation.scores import accuracy
from transformer.evaluation.task_scores import SimpleScores, plain_table
from transformer.inference.encoders import Classifier

NUM_SAMPLES = 3
MOST_IN_TABLE = 40  # classes, or pairs of them


def evaluate_classifier(
    classifier: Classifier,
    examples: Sequence[str] | np.ndarray,
    labels: Sequence[str],
    corpus: str,
) -> SimpleScores:
    """Returns the scores of a classifier on `examples`, whose true classes are `labels`.

    examples: as `Classifier.classify` takes them. corpus: the name of the test set.
    """
    found = classifier.classify(examples)
    names = classifier.labels.names
    rows = [
        {
            "text": example if isinstance(example, str) else None,
            "label": label,
            "found": answer.label,
            "probabilities": answer.probabilities,
        }
        for example, label, answer in zip(examples, labels, found, strict=True)
    ]
    confusions = Counter((row["label"], row["found"]) for row in rows)
    details = _confusion_lines(names, confusions)
    if classifier.num_truncated:
        details.append(
            f"{quantity(classifier.num_truncated, 'sentence')} cut at data.row_length tokens"
        )
    samples = [
        f"  text   {row['text']}\n  class  {row['label']}\n  found  {row['found']} "
        f"({max(row['probabilities'].values()):.0%})\n"
        for row in rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]
        if row["text"]
    ]
    score = accuracy([row["label"] == row["found"] for row in rows], f"{len(names)} classes")
    return SimpleScores(
        checkpoint=classifier.run.checkpoint,
        corpus=corpus,
        scores={"accuracy": score},
        details=details,
        samples=samples,
        rows=rows,
    )


def _confusion_lines(names: Sequence[str], confusions: Counter[tuple[str, str]]) -> list[str]:
    """Returns a table of classes, or of many classes the pairs that are confused most often.

    confusions: number of examples per (true, found) class.
    """
    if len(names) > MOST_IN_TABLE:
        wrong = Counter({pair: n for pair, n in confusions.items() if pair[0] != pair[1]})
        rows = [[*pair, f"{count:,}"] for pair, count in wrong.most_common(MOST_IN_TABLE)]
        table = plain_table(rows, ["left", "left", "right"], ["class", "found", "examples"])
        return [f"the {len(rows)} most frequent confusions of {len(wrong):,}:", *table]
    rows = []
    for true in names:
        counts = [confusions[true, name] for name in names]
        recall = counts[names.index(true)] / max(1, sum(counts))
        rows.append([true, *(f"{count:,}" for count in counts), f"{recall:.1%}"])
    align = ["left", *["right"] * (len(names) + 1)]
    title = "examples of each class (rows), by the class that was found (columns):"
    return [title, *plain_table(rows, align, headers=["", *names, "recall"])]
