"""A classifier's test set: what was taken for what is counted the right way round, and kept."""

import json
from types import SimpleNamespace

import numpy as np

from transformer.evaluation import classification
from transformer.evaluation.classification import evaluate_classifier
from transformer.inference.encoders import Classification
from transformer.workdir import WorkDir

NAMES = ["yes", "no", "7"]
TRUE = ["yes", "yes", "yes", "no", "7"]
FOUND = ["yes", "yes", "no", "no", "no"]


def fake_classifier():
    """Says `FOUND`, whatever it is asked."""
    answers = [Classification(name, 0.8, dict.fromkeys(NAMES, 0.1) | {name: 0.8}) for name in FOUND]
    return SimpleNamespace(
        classify=lambda examples: answers,
        labels=SimpleNamespace(names=NAMES),
        num_truncated=2,
        run=SimpleNamespace(checkpoint="best (3)"),
    )


def test_confusions_stand_in_the_row_of_the_true_class():
    """Catches a table with rows and columns swapped, and names that are printed as numbers."""
    result = evaluate_classifier(fake_classifier(), ["a", "b", "c", "d", "e"], TRUE, "own test")
    assert result.primary.value == 60 and "5 examples" in result.lines()[0]
    assert [line.split() for line in result.detail_lines()[1:5]] == [
        ["yes", "no", "7", "recall"],
        ["yes", "2", "1", "0", "66.7%"],
        ["no", "0", "1", "0", "100.0%"],
        ["7", "0", "1", "0", "0.0%"],
    ]
    assert "2 sentences cut" in result.detail_lines()[-1]
    assert len(result.sample_lines()) == 3 and "(80%)" in result.sample_lines()[0]


def test_of_many_classes_the_frequent_confusions_are_listed(monkeypatch):
    """Catches a table of a million cells, and examples that were right among the confused."""
    monkeypatch.setattr(classification, "MOST_IN_TABLE", 2)
    result = evaluate_classifier(fake_classifier(), ["a", "b", "c", "d", "e"], TRUE, "own test")
    title, heading, *rows, _ = result.detail_lines()
    assert title == "the 2 most frequent confusions of 2:"
    assert heading.split() == ["class", "found", "examples"]
    assert {tuple(row.split()) for row in rows} == {("yes", "no", "1"), ("7", "no", "1")}


def test_every_example_is_kept(tmp_path):
    """Catches a file of examples that lacks one, and an image that is written as text."""
    workdir = WorkDir(tmp_path)
    images = np.zeros((5, 2, 2))
    result = evaluate_classifier(fake_classifier(), images, TRUE, "own test")
    path = result.save(workdir, "test")
    rows = [json.loads(line) for line in (path.parent / "examples.jsonl").read_text().splitlines()]
    assert [(row["label"], row["found"]) for row in rows] == list(zip(TRUE, FOUND, strict=True))
    assert {row["text"] for row in rows} == {None} and result.sample_lines() == []
    record = json.loads(path.read_text())
    assert record["accuracy"]["value"] == 60 and record["checkpoint"] == "best (3)"
    assert record["details"] == result.detail_lines()
