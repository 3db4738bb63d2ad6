"""Sentences keep their line numbers, ranges of lengths their sentences; faults are found."""

from functools import partial

import pytest
import sacrebleu

from tests.helpers.scored import CORPUS, evaluation
from transformer.evaluation.metrics import bleu
from transformer.evaluation.segments import (
    find_faults,
    score_by_length,
    split_text,
    word_unit,
    worst_and_best,
)


def test_bleu_of_a_length_is_sacrebleu_s_of_those_sentences_alone():
    """Catches a mean of sentence scores, and a sentence at the border that counts twice."""
    lengths = (1, 10, 11, 20, 61, 0)
    rows = [(" ".join(["w"] * n), *row[1:]) for n, row in zip(lengths, CORPUS, strict=True)]
    scores = score_by_length(evaluation(rows).segments, "words", partial(bleu, direction="en-de"))
    expected = {"1–10": rows[:2], "11–20": rows[2:4], "61 and more": rows[4:5]}
    assert list(scores) == list(expected)
    for lengths, inside in expected.items():
        theirs = sacrebleu.corpus_bleu([r[2] for r in inside], [[r[1] for r in inside]])
        assert scores[lengths].value == pytest.approx(theirs.score)
        assert scores[lengths].num_sentences == len(inside)


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


@pytest.mark.parametrize(
    ("source", "translation", "faults"),
    [
        ("a dog", "ein Hund", []),
        ("a dog", " ", ["empty"]),
        ("  ", "", []),
        ("A  dog ", "a  DOG", ["copied"]),
        ("a dog", "a dog .", []),
        ("it is so", "es ist so so so so", ["repeating"]),
        ("it is so", "es ist so so so", []),
        ("so so so so", "so so so so", ["copied"]),
        ("x", "A b a B a b A b", ["repeating"]),
        ("x", "a b a b a b a", []),
        ("x", "a b c d e a b c d f a b c d", ["repeating"]),
        ("x", "a b c d e a b c d f a b c", []),
        ("no no no no", "nein nein nein nein", []),
    ],
)
def test_faults_by_hand(source, translation, faults):
    """Catches a loop that ends one word early, and an empty source blamed on the translation."""
    assert find_faults(source, translation, ("en", "de")) == faults


@pytest.mark.parametrize("code", ["ja", "jpn", "ja_XX", "jpn_Jpan", "zho_Hans", "zh-TW", "tha"])
def test_characters_are_words_where_there_are_no_spaces(code):
    """Catches Chinese counted as one word per sentence, in which no loop could ever be seen."""
    assert split_text("你好 吗", word_unit(code)) == ["你", "好", "吗"]
    assert find_faults("well", "好好好好", ("eng_Latn", code)) == ["repeating"]
    assert split_text("wie geht es", word_unit("de")) == ["wie", "geht", "es"]
