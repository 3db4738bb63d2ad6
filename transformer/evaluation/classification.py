"""Evaluates a classifier on labelled examples: its accuracy, and which classes it confuses."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transformer.evaluation.scores import accuracy
from transformer.evaluation.task_scores import SimpleScores, plain_table
from transformer.inference.classifier import Classifier

NUM_SAMPLES = 3


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
    details = ["examples of each class (rows), by the class that was found (columns):"]
    details += _confusion_table(names, confusions)
    if classifier.num_truncated:
        details.append(f"{classifier.num_truncated:,} sentences cut at data.row_length tokens")
    samples = [
        f"  text   {row['text']}\n  class  {row['label']}\n  found  {row['found']} "
        f"({max(row['probabilities'].values()):.0%})\n"
        for row in rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]
        if row["text"]
    ]
    score = accuracy([row["label"] == row["found"] for row in rows], f"{len(names)} classes")
    return SimpleScores(
        checkpoint=classifier.checkpoint,
        corpus=corpus,
        scores={"accuracy": score},
        details=details,
        samples=samples,
        rows=rows,
    )


def _confusion_table(names: Sequence[str], confusions: Counter[tuple[str, str]]) -> list[str]:
    """Returns the lines of a table; confusions: number of examples per (true, found) class."""
    rows = []
    for true in names:
        counts = [confusions[true, name] for name in names]
        recall = counts[names.index(true)] / max(1, sum(counts))
        rows.append([true, *(f"{count:,}" for count in counts), f"{recall:.1%}"])
    align = ["left", *["right"] * (len(names) + 1)]
    return plain_table(rows, align, headers=["", *names, "recall"])
