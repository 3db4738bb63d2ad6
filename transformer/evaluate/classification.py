"""A classifier and labelled examples: its accuracy, and what it takes for what."""

from collections import Counter

from transformer.evaluate.metrics import accuracy
from transformer.evaluate.task_scores import TaskScores

NUM_SAMPLES = 3


def evaluate_classifier(classifier, examples, labels, corpus):
    """A `TaskScores`. examples: as `Classifier.classify` takes them; labels: their true classes."""
    found = classifier.classify(examples)
    names = classifier.labels.names
    pairs = Counter((true, c.label) for true, c in zip(labels, found, strict=True))
    right = [c.label == true for true, c in zip(labels, found, strict=True)]
    texts = [x if isinstance(x, str) else None for x in examples]
    rows = [
        {"text": text, "label": true, "found": c.label, "probabilities": c.probabilities}
        for text, true, c in zip(texts, labels, found, strict=True)
    ]
    details = _table(names, pairs)
    if classifier.num_truncated:
        details.append(f"{classifier.num_truncated:,} sentences cut at the longest of training")
    samples = [
        f"  text   {row['text']}\n  class  {row['label']}\n  found  {row['found']} "
        f"({max(row['probabilities'].values()):.0%})\n"
        for row in rows[:: max(1, len(rows) // NUM_SAMPLES)][:NUM_SAMPLES]
        if row["text"]
    ]
    score = accuracy(right, f"{len(names)} classes")
    return TaskScores(classifier.checkpoint, corpus, {"accuracy": score}, details, rows, samples)


def _table(names, pairs):
    """Lines: how many examples of each class (a row) were taken for each (a column)."""
    width = max(8, *(len(name) + 2 for name in names))
    lines = ["examples of each class (rows), by the class that was found (columns):"]
    lines.append("".ljust(width) + "".join(name.rjust(width) for name in names) + "   found")
    for true in names:
        counts = [pairs[true, name] for name in names]
        share = f"{pairs[true, true] / max(1, sum(counts)):.1%}"
        cells = "".join(f"{count:,}".rjust(width) for count in counts)
        lines.append(true.ljust(width) + cells + share.rjust(8))
    return lines
