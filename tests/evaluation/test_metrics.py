"""Scores can be compared, or there is none."""

import math

import numpy as np
import pytest
import sacrebleu

from transformer.evaluation import metrics, scores
from transformer.model.loss import perplexity

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
    """Catches swapped arguments, another smoothing, and a fraction instead of a percentage."""
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
    """Catches a bare number, and ± 0.00 of seven sentences, as if their score were certain."""
    score = metrics.bleu(TRANSLATIONS * 25, REFERENCES * 25, "en-de", num_bootstrap=100)
    assert score.direction == "en-de" and score.num_sentences == 50 and score.interval > 0
    assert {"tok:13a", "smooth:exp"} <= set(score.signature.split("|"))
    text = str(score)
    assert all(
        part in text for part in ("BLEU", "±", "en-de", "(en-de, 50 sentences)", score.signature)
    )
    assert score.to_json().keys() == {
        *("name", "value", "signature", "direction", "num_sentences", "interval", "unit")
    }
    none = metrics.bleu(TRANSLATIONS * 25, REFERENCES * 25, "en-de", tokenize="none")
    assert "tok:none" in none.signature and none.interval is None and "±" not in str(none)
    few = metrics.bleu(["a b c d e"], ["a b c d e"], "en-de", num_bootstrap=100)
    assert "bs:" not in few.signature and few.interval is None
    assert str(few).startswith("BLEU 100.00  (en-de, 1 sentence: too few for an interval)  nrefs:1")
    costs = scores.corpus_perplexity([-2.0] * 7, [1] * 7, "en-de", vocab_size=9, num_bootstrap=20)
    assert costs.interval is None and "7 sentences: too few for an interval" in str(costs)
    assert "nc:6" in metrics.chrf(TRANSLATIONS, REFERENCES, "en-de").signature


def test_the_interval_is_the_same_twice():
    """Catches a bootstrap without a seed."""
    once, twice = (
        metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", num_bootstrap=50) for _ in range(2)
    )
    assert once == twice


def test_perplexity():
    """Catches a mean of means, a division by zero and an overflow."""
    assert perplexity(4 * math.log(7), 4) == pytest.approx(7)
    assert perplexity(0.0, 0) == 1
    assert perplexity(1e6, 1) == math.inf


def test_translations_that_share_next_to_nothing_are_scored():
    """Catches a model that has just begun: sacrebleu 2.6 fails to resample such a chrF."""
    translations, references = ["b", *["x"] * 9], ["a b", *["c d"] * 9]
    score = metrics.chrf(translations, references, "en-de", num_bootstrap=100)
    assert 0 < score.value < 10


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("BLEU, lower-cased", dict(lowercase=True)),
        ("BLEU, international tokenisation", dict(tokenize="intl")),
        (
            "BLEU, lower-cased, international tokenisation",
            dict(tokenize="intl", lowercase=True),
        ),
    ],
)
def test_second_scores_are_sacrebleu_s(name, options):
    """Catches a name on the wrong variant."""
    texts = [t.upper().replace(" .", "-x.") for t in TRANSLATIONS], [f"{r}!" for r in REFERENCES]
    found = {score.name: score for score in metrics.secondary_scores(*texts, "en-de")}
    theirs = sacrebleu.corpus_bleu(texts[0], [texts[1]], **options)
    assert found[name].value == pytest.approx(theirs.score)
    assert ("case:lc" in found[name].signature) == ("lowercase" in options)
    chrf = sacrebleu.corpus_chrf(texts[0], [texts[1]], word_order=2)
    assert found["chrF2++"].value == pytest.approx(chrf.score)


@pytest.mark.parametrize(("tokenize", "count"), [("13a", 4), ("intl", 3), ("none", 5), ("zh", 3)])
def test_second_scores_do_not_repeat_the_first(tokenize, count):
    """Catches the same figure under two names, and word tokens of a language without spaces."""
    first = metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", tokenize=tokenize)
    others = metrics.secondary_scores(TRANSLATIONS, REFERENCES, "en-de", tokenize=tokenize)
    signatures = [score.signature for score in [first, *others]]
    assert len(others) == count and len(set(signatures)) == count + 1
    assert tokenize != "zh" or not any("tok:13a" in s or "tok:intl" in s for s in signatures)


def test_the_interval_of_a_perplexity_is_that_of_its_sentences():
    """Catches an interval over pieces, resamples that are not paired, and EOS left uncounted."""
    counts = [3, 5, 9, 4] * 25
    log_probs = [-1.0 * n * (1 + i % 3) for i, n in enumerate(counts)]
    options = dict(vocab_size=50, num_bootstrap=500)
    score = scores.corpus_perplexity(log_probs, counts, "en-de", **options)
    assert score.value == pytest.approx(math.exp(-sum(log_probs) / sum(counts)))
    spread = np.std([-p / n for p, n in zip(log_probs, counts, strict=True)]) / len(counts) ** 0.5
    assert 1.2 * spread < score.interval / score.value < 3 * spread
    same = [-2.0 * n for n in counts]
    assert scores.corpus_perplexity(same, counts, "en-de", **options).interval < 1e-9
    assert {"unit:piece", "eos:yes", "vocab:50", "bs:500"} <= set(score.signature.split("|"))
    assert f"{score.value:.3f} ± {score.interval:.3f}" in str(score)
    none = scores.corpus_perplexity([math.nan], [300], "en-de", **options)  # too long to be scored
    assert none.to_json()["value"] is none.interval is None and "perplexity nan" in str(none)


def test_tokens_are_counted_as_by_bleu():
    """Catches a length ratio of characters or of words between spaces."""
    assert metrics.count_tokens(["a, b"], ["a b."]) == (3, 3)
    assert metrics.count_tokens(["a, b"], ["a b c"], tokenize="none") == (2, 3)


def test_line_error_rate_counts_lines_that_are_not_wholly_right():
    """Catches phones counted for words, a fraction for a percentage, and a forgiving comparison."""
    ours = ["a b c", "a b", "A b", "ab", ""]
    theirs = ["a b c", "a c", "a b", "a b", "x"]
    texts = ours * 10, theirs * 10
    score = metrics.score_by("line_error_rate", *texts, "hun-ipa", num_bootstrap=500)
    assert (score.name, score.value, score.num_sentences) == ("WER (whole words)", 80, 50)
    assert {"unit:line", "match:whole", "bs:500"} <= set(score.signature.split("|"))
    assert metrics.score_by("line_error_rate", theirs, theirs, "hun-ipa").value == 0
    with pytest.raises(ValueError, match="there are 4 and 5"):
        metrics.score_by("line_error_rate", ours[1:], theirs, "hun-ipa")


def test_the_interval_of_a_line_error_rate_is_that_of_a_proportion():
    """Catches an interval over phones, and half of it or twice."""
    ours = ["x" if i % 10 else "y" for i in range(1000)]
    score = metrics.score_by("line_error_rate", ours, ["x"] * 1000, "a-b", num_bootstrap=1000)
    assert score.value == 10
    assert score.interval == pytest.approx(1.96 * math.sqrt(0.1 * 0.9 / 1000) * 100, rel=0.1)


def test_every_metric_scores_under_its_name():
    """Catches a selection_metric that validates and fails at the first evaluation."""
    for name in metrics.METRICS:
        score = metrics.score_by(name, TRANSLATIONS, REFERENCES, "en-de")
        assert score.name == metrics.METRICS[name].label
    bleu = metrics.bleu(TRANSLATIONS, REFERENCES, "en-de", tokenize="none")
    assert metrics.score_by("bleu", TRANSLATIONS, REFERENCES, "en-de", tokenize="none") == bleu


def test_accuracy_has_wilsons_interval():
    """Catches a share for a percentage, and an interval of 0 where nothing went wrong."""
    score = scores.accuracy([True] * 81 + [False] * 19, "2 classes")
    assert score.value == pytest.approx(81)
    assert score.interval == pytest.approx((87.45 - 72.22) / 2, abs=0.02)  # Wilson, of a table
    assert "100 examples" in str(score)
    assert scores.accuracy([True] * 50, "2 classes").interval > 3


def test_a_mean_loss_and_its_perplexity_agree():
    """Catches a loss in bits, or a perplexity of something else."""
    loss, perplexity = scores.mean_loss(200.0, 100, "piece")
    assert loss.value == 2.0 and perplexity.value == pytest.approx(math.exp(2))
    assert "nats per piece 2.000" in str(loss) and "100 pieces" in str(loss)
