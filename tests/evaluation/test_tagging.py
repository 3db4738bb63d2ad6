"""tagging.py: entities and their F1, against examples that were worked out by hand."""

import pytest

from transformer.evaluation.tagging import entities, score_labels


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", []),
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("I-PER I-PER", [("PER", 0, 2)]),  # the older notation: B- between neighbours alone
        ("B-PER I-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("O I-LOC B-LOC I-LOC", [("LOC", 1, 2), ("LOC", 2, 4)]),
        ("B-A-B I-A-B", [("A-B", 0, 2)]),
        ("NOUN B I-", []),
        ("", []),
    ],
)
def test_entities(labels, expected):
    """Catches neighbours that become one, and an entity at the end of a text that is lost."""
    assert entities(labels.split()) == expected


def test_f1_by_hand():
    """Catches half right entities that count, entities of another text, and words for entities."""
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


def test_extremes():
    """Catches a division by zero, and an F1 for labels that name no entities."""
    assert [*score_labels([["NOUN", "VERB"]], [["NOUN", "NOUN"]], "2 labels")] == ["accuracy"]
    assert score_labels([["B-X"]], [["O"]], "2 labels")["f1"].value == 0
    assert score_labels([["B-X", "I-X"]], [["B-X", "I-X"]], "2 labels")["f1"].value == 100
