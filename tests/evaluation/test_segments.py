"""Sentences keep their line numbers, and ranges of lengths their sentences."""

from functools import partial

import pytest
import sacrebleu

from tests.helpers.scored import CORPUS, evaluation
from transformer.evaluation.metrics import bleu
from transformer.evaluation.segments import score_by_length, worst_and_best


def test_bleu_of_a_length_is_sacrebleu_s_of_those_sentences_alone():
    """Catches a mean of sentence scores, and a sentence at the border that counts twice."""
    lengths = (1, 10, 11, 20, 61, 0)
    rows = [(" ".join(["w"] * n), *row[1:]) for n, row in zip(lengths, CORPUS, strict=True)]
    segments = evaluation(rows).segments
    found = score_by_length(segments, "words", partial(bleu, direction="en-de"))
    expected = {(1, 10): rows[:2], (11, 20): rows[2:4], (61, None): rows[4:5]}
    assert [(row.low, row.high) for row in found] == list(expected)
    assert [row.lengths for row in found] == ["1–10", "11–20", "61 and more"]
    for row, inside in zip(found, expected.values(), strict=True):
        theirs = sacrebleu.corpus_bleu([r[2] for r in inside], [[r[1] for r in inside]])
        assert row.score.value == pytest.approx(theirs.score)
        assert row.score.num_sentences == len(inside)


def test_few_sentences_have_no_interval():
    """Catches a ± 0.00 of one sentence, which says that its score is certain."""
    score = partial(bleu, direction="en-de", num_bootstrap=10)
    rows = [(" ".join("w" * length), *CORPUS[0][1:]) for length in [5] * 49 + [15] * 50]
    few, enough = score_by_length(evaluation(rows).segments, "words", score)
    assert few.score.interval is None and few.score.num_sentences == 49
    assert enough.score.interval is not None


def test_the_worst_and_the_best_are_ordered_and_apart():
    """Catches an order upside down, and a short test set of which each half shows all."""
    segments = evaluation().segments
    worst, best = worst_and_best(segments, 2)
    assert [segment.number for segment in worst] == [4, 2]
    assert [segment.number for segment in best] == [6, 1]
    for segment in worst + best:
        theirs = sacrebleu.sentence_chrf(segment.translation, [segment.reference])
        assert segment.chrf == pytest.approx(theirs.score)
    worst, best = worst_and_best(segments)
    assert (len(worst), len(best)) == (5, 1)
    assert worst_and_best(segments[:1]) == (segments[:1], [])
