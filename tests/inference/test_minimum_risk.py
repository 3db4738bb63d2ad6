"""Minimum Bayes risk decoding chooses by chrF as sacrebleu counts it, and by nothing else."""

import numpy as np
import pytest
from sacrebleu.metrics import CHRF

from tests.helpers.random_translators import random_sentences, random_translator
from transformer.inference.minimum_risk import least_risk, pairwise_chrf
from transformer.inference.translation import Translation

TEXTS = [
    "a cat sat",
    "a cat sat down",
    "the dog",
    "",
    "x",
    "a cat",
    "ein Hund  läuft ☃",
    "aaaaaaaa",
]


def candidates(*rows):
    return [Translation(text, log_prob, log_prob, [5]) for text, log_prob in rows]


def test_pairwise_chrf_is_sacrebleus():
    """Catches spaces that count, another β, and texts shorter than the longest n-gram."""
    theirs = [[CHRF().sentence_score(a, [b]).score for b in TEXTS] for a in TEXTS]
    np.testing.assert_allclose(pairwise_chrf(TEXTS), theirs, atol=1e-9)


@pytest.mark.parametrize("are_samples", [True, False])
def test_the_choice_has_the_largest_mean_utility(are_samples):
    """Catches a risk that leaves out repeated samples, or probabilities that are not heeded."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        rows = [(TEXTS[i], float(rng.normal(-9, 2))) for i in rng.integers(0, len(TEXTS), 7)]
        weights = np.exp([0.0 if are_samples else log_prob for _, log_prob in rows])
        texts = [text for text, _ in rows]
        utility = pairwise_chrf(texts) @ weights
        found = least_risk(candidates(*rows), are_samples=are_samples)
        assert utility[texts.index(found.text)] == pytest.approx(utility.max())


def test_likely_candidates_count_for_more_in_an_n_best_list():
    """Catches weights by the length-normalised score, and samples weighted twice."""
    rows = candidates(("a b c d", -1.0), ("x y z w", -8.0), ("x y z", -8.1))
    assert least_risk(rows, are_samples=False).text == "a b c d"
    assert least_risk(rows, are_samples=True).text in ("x y z w", "x y z")


def test_a_translator_chooses_among_its_own_candidates():
    """Catches a choice that comes with the score or the ids of another candidate."""
    translator, sentences = random_translator(num_layers=1), random_sentences(6)
    best = translator.translate(sentences, nbest=4, beam_size=4)
    expected = [least_risk(nbest, are_samples=False) for nbest in best]
    assert translator.translate(sentences, mbr=4, beam_size=4) == expected
    for wrong in (dict(mbr=8, beam_size=4), dict(mbr=2, nbest=2), dict(mbr=-1)):
        with pytest.raises(ValueError, match=r"(mbr|nbest) must be"):
            translator.translate(sentences, **wrong)
