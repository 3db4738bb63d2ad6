"""Labels of examples and of words: counted the right way round, and kept."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from transformer.evaluation import classification
from transformer.evaluation.classification import entities, evaluate_classifier, score_labels
from transformer.inference.encoders import Classification
from transformer.workdir import WorkDir

NAMES = ["yes", "no", "7"]
TRUE = ["yes", "yes", "yes", "no", "7"]
FOUND = ["yes", "yes", "no", "no", "no"]


def evaluate(examples=("a", "b", "c", "d", "e")):
    """The scores of a classifier that says `FOUND`, whatever it is asked."""
    answers = [Classification(name, 0.8, dict.fromkeys(NAMES, 0.1) | {name: 0.8}) for name in FOUND]
    classifier = SimpleNamespace(
        classify=lambda examples: answers,
        labels=SimpleNamespace(names=NAMES),
        num_truncated=2,
        run=SimpleNamespace(checkpoint="best (3)"),
    )
    return evaluate_classifier(classifier, examples, TRUE, "own test")


def test_confusions_stand_in_the_row_of_the_true_class(monkeypatch):
    """Catches rows and columns swapped, names that are printed as numbers, a table of a million
    cells, and examples that were right among the confused."""
    result = evaluate()
    assert result.primary.value == 60 and "5 examples" in result.lines()[0]
    assert [line.split() for line in result.details[1:5]] == [
        ["yes", "no", "7", "recall"],
        ["yes", "2", "1", "0", "66.7%"],
        ["no", "0", "1", "0", "100.0%"],
        ["7", "0", "1", "0", "0.0%"],
    ]
    assert "2 sentences cut" in result.details[-1]
    assert len(result.samples) == 3 and "(80%)" in result.samples[0]
    monkeypatch.setattr(classification, "MOST_IN_TABLE", 2)
    title, heading, *rows, _ = evaluate().details
    assert title == "the 2 most frequent confusions of 2:"
    assert heading.split() == ["class", "found", "examples"]
    assert {tuple(row.split()) for row in rows} == {("yes", "no", "1"), ("7", "no", "1")}


def test_every_example_is_kept(tmp_path):
    """Catches a file of examples that lacks one, and an image that is written as text."""
    result = evaluate(np.zeros((5, 2, 2)))
    path = result.save(WorkDir(tmp_path), "test")
    rows = [json.loads(line) for line in (path.parent / "examples.jsonl").read_text().splitlines()]
    assert [(row["label"], row["found"]) for row in rows] == list(zip(TRUE, FOUND, strict=True))
    assert {row["text"] for row in rows} == {None} and result.samples == []
    record = json.loads(path.read_text())
    assert record["accuracy"]["value"] == 60 and record["checkpoint"] == "best (3)"
    assert record["details"] == result.details


def test_entities():
    """Catches neighbours that become one, and an entity at the end of a text that is lost."""
    for labels, expected in (
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("I-PER I-PER", [("PER", 0, 2)]),  # the older notation: B- between neighbours alone
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("O I-LOC B-LOC I-LOC", [("LOC", 1, 2), ("LOC", 2, 4)]),
        ("B-A-B I-A-B", [("A-B", 0, 2)]),
        ("O NOUN B I-", []),
        ("", []),
    ):
        assert entities(labels.split()) == expected


def test_f1_by_hand():
    """Catches half right entities that count, entities of another text, words for entities, and a
    division by zero."""
    expected = [["B-PER", "I-PER", "O", "B-LOC"], ["B-ORG", "O", "O"]]
    found = [["B-PER", "O", "O", "B-LOC"], ["B-ORG", "O", "B-ORG"]]
    scores = score_labels(expected, found, "4 labels")
    assert [*scores] == ["f1", "accuracy"]
    # Of 3 entities 2 are found, of the 4 that are given 2 are right; 5 of 7 words are right.
    assert scores["f1"].value == pytest.approx(200 * 2 / (3 + 4))
    assert "precision:50.0%|recall:66.7%" in scores["f1"].signature
    assert scores["f1"].num_sentences == 3
    assert scores["accuracy"].value == pytest.approx(100 * 5 / 7)
    assert scores["accuracy"].unit == "words"
    assert [*score_labels([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "2 labels")] == ["accuracy"]
    assert score_labels([["B-X"]], [["O"]], "2 labels")["f1"].value == 0
    assert score_labels([["B-X", "I-X"]], [["B-X", "I-X"]], "2 labels")["f1"].value == 100
