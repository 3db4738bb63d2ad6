"""metrics.py: scores that can be compared, or none."""

import math

import pytest

from transformer import metrics

REFERENCES = ["The quick brown fox jumps over the lazy dog .", "It was a dark and stormy night ."]
TRANSLATIONS = ["The quick brown fox leaps over the lazy dog .", "It was a dark and rainy night ."]


def by_hand(translations, references):
    """BLEU by its definition, for lists of lists of words."""
    matches, totals = [0] * 4, [0] * 4
    for ours, theirs in zip(translations, references, strict=True):
        for n in range(1, 5):
            left = [tuple(theirs[i : i + n]) for i in range(len(theirs) - n + 1)]
            for i in range(len(ours) - n + 1):
                totals[n - 1] += 1
                if tuple(ours[i : i + n]) in left:
                    left.remove(tuple(ours[i : i + n]))
                    matches[n - 1] += 1
    precision = sum(math.log(m / t) for m, t in zip(matches, totals, strict=True)) / 4
    lengths = [sum(map(len, side)) for side in (translations, references)]
    return 100 * math.exp(precision + min(0, 1 - lengths[1] / lengths[0]))


@pytest.mark.parametrize("shorten", [0, 2], ids=["whole", "brevity"])
def test_bleu_is_bleu(shorten):
    """Catches swapped arguments, another smoothing, and a fraction in place of a percentage."""
    translations = [" ".join(t.split()[: 10 - shorten]) for t in TRANSLATIONS]
    expected = by_hand([t.split() for t in translations], [r.split() for r in REFERENCES])
    for tokenize in ("none", "13a"):
        score = metrics.bleu(translations, REFERENCES, "en-de", tokenize=tokenize)
        assert score.value == pytest.approx(expected)


def test_perfect_and_hopeless():
    """Catches a scale other than 0 to 100."""
    assert metrics.bleu(REFERENCES, REFERENCES, "en-en").value == pytest.approx(100)
    assert metrics.chrf(REFERENCES, REFERENCES, "en-en").value == pytest.approx(100)
    assert metrics.bleu(["x", "y"], REFERENCES, "en-en").value == 0


def test_bleu_minds_case():
    """Catches scores of lower-cased text, some two points too high."""
    lower = [t.lower() for t in REFERENCES]
    assert metrics.bleu(lower, REFERENCES, "en-en").value < 90


@pytest.mark.parametrize("score", [metrics.bleu, metrics.chrf])
@pytest.mark.parametrize(("ours", "theirs"), [(1, 2), (2, 1), (0, 0), (0, 2), (2, 0)])
def test_lists_that_do_not_pair_are_refused_with_both_counts(score, ours, theirs):
    """Catches sacrebleu's zip, which scores 999 translations of 1,000 as 100."""
    with pytest.raises(ValueError, match=f"there are {ours} and {theirs}"):
        score(TRANSLATIONS[:ours], REFERENCES[:theirs], "en-de")


def test_a_score_carries_all_that_it_takes_to_compare_it():
    """Catches a bare number."""
    score = metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", num_bootstrap=100)
    assert score.direction == "en-de" and score.num_sentences == 2 and score.interval > 0
    assert {"tok:13a", "smooth:exp"} <= set(score.signature.split("|"))
    text = str(score)
    assert all(part in text for part in ("BLEU", "±", "en-de", "2 sentences", score.signature))
    assert score.to_json().keys() == {
        *("name", "value", "signature", "direction", "num_sentences", "interval")
    }
    none = metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", tokenize="none")
    assert "tok:none" in none.signature and none.interval is None and "±" not in str(none)
    assert "nc:6" in metrics.chrf(TRANSLATIONS, REFERENCES, "en-de").signature


def test_the_interval_is_the_same_twice():
    """Catches a bootstrap without a seed."""
    scores = [metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", num_bootstrap=50) for _ in range(2)]
    assert scores[0] == scores[1]


def test_perplexity():
    """Catches a mean of means, a division by zero and an overflow."""
    assert metrics.perplexity(4 * math.log(7), 4) == pytest.approx(7)
    assert metrics.perplexity(0.0, 0) == 1
    assert metrics.perplexity(1e6, 1) == math.inf


def test_translations_that_share_next_to_nothing_are_scored():
    """Of a model that has just begun; sacrebleu 2.6 fails to resample such a chrF."""
    translations, references = ["b", *["x"] * 9], ["a b", *["c d"] * 9]
    score = metrics.chrf(translations, references, "en-de", num_bootstrap=100)
    assert 0 < score.value < 10
