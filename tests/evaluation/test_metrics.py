"""Scores can be compared, or there is none."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu

import transformer
from tests.helpers.scored import evaluation
from transformer.config import Config
from transformer.evaluation import loss, metrics, scores
from transformer.evaluation.metrics import check_metrics, score_by
from transformer.evaluation.translation import evaluate_translator
from transformer.model.loss import perplexity

REFERENCES = ["The quick brown fox jumps over the lazy dog .", "It was a dark and stormy night ."]
TRANSLATIONS = ["The quick brown fox leaps over the lazy dog .", "It was a dark and rainy night ."]
FIRST = ["the cat sat on the mat today", "a dark and stormy night", "hello"]
SECOND = ["today a cat was sitting on the mat", "the night was dark", "hi there"]
OURS = ["a cat sat on the mat", "a dark night", "hi there"]
BOTH = list(zip(FIRST, SECOND, strict=True))

bleu, chrf = (partial(score_by, name) for name in ("bleu", "chrf"))

FAKE_COMET = """#!/bin/sh
here=$(dirname "$0")
paste source translation reference > "$here/seen"
echo "${11}" > "$here/seen.model"
[ "${11}" = bad ] && echo "no such model" >&2 && exit 1
python3 - <<'END'
import json
names = ("source", "translation", "reference")
rows = [dict(zip(names, row)) for row in zip(*(open(n).read().splitlines() for n in names))]
scores = [dict(row, COMET=len(row["reference"]) / 100) for row in rows]
json.dump(dict(translation=scores), open("scores", "w"))
END
"""  # scores a line by the length of its reference


def test_bleu_is_sacrebleu_s():
    """Catches swapped arguments, another smoothing, and a fraction instead of a percentage."""
    for translations, tokenize, expected in (
        (TRANSLATIONS, "13a", None),
        (TRANSLATIONS, "none", None),
        ([t[:-9] for t in TRANSLATIONS], "13a", None),  # with a brevity penalty
        ([t.lower() for t in REFERENCES], "13a", None),  # case counts
        (REFERENCES, "13a", 100),
        (["x", "y"], "13a", 0),
    ):
        score = bleu(translations, REFERENCES, "en-de", tokenize=tokenize)
        theirs = sacrebleu.corpus_bleu(translations, [REFERENCES], tokenize=tokenize, force=True)
        assert score.value == pytest.approx(theirs.score if expected is None else expected)
        assert f"tok:{tokenize}" in score.signature and "smooth:exp" in score.signature
        theirs = sacrebleu.corpus_chrf(translations, [REFERENCES]).score
        assert chrf(translations, REFERENCES, "en-de").value == pytest.approx(theirs)


@pytest.mark.parametrize(("ours", "theirs"), [(1, 2), (2, 1), (0, 0), (0, 2), (2, 0)])
def test_lists_that_do_not_pair_are_refused_with_both_counts(ours, theirs):
    """Catches sacrebleu's zip, which scores 999 translations of 1,000 as 100."""
    with pytest.raises(ValueError, match=f"there are {ours} and {theirs}"):
        bleu(TRANSLATIONS[:ours], REFERENCES[:theirs], "en-de")


def test_a_score_carries_all_that_it_takes_to_compare_it():
    """Catches a bare number, and ± 0.00 of seven sentences, as if their score were certain. Also a
    model that has just begun: sacrebleu 2.6 fails to resample its chrF."""
    texts, options = (TRANSLATIONS * 25, REFERENCES * 25, "en-de"), dict(num_bootstrap=100)
    score = bleu(*texts, **options)
    assert score.direction == "en-de" and score.num_sentences == 50 and score.interval > 0
    for shown in ("BLEU", "±", "(en-de, 50 sentences)", score.signature):
        assert shown in str(score)
    assert score == bleu(*texts, **options)  # the bootstrap has a seed
    assert score.from_json(score.to_json()) == score
    none = bleu(*texts)
    assert none.interval is None and "±" not in str(none)
    few = bleu(["a b c d e"], ["a b c d e"], "en-de", **options)
    assert "bs:" not in few.signature and few.interval is None
    assert str(few).startswith("BLEU 100.00  (en-de, 1 sentence: too few for an interval)  nrefs:1")
    costs = scores.corpus_perplexity([(-2.0, 1)] * 7, "en-de", vocab_size=9, num_bootstrap=20)
    assert costs.interval is None and "7 sentences: too few for an interval" in str(costs)
    assert 0 < chrf(["b", *["x"] * 9], ["a b", *["c d"] * 9], "en-de", **options).value < 10


def second_scores(*texts, tokenize="13a"):
    named = metrics.secondary_metrics(tokenize).items()
    return [metrics.score_with(name, metric, *texts, "en-de") for name, metric in named]


def test_second_scores_are_sacrebleu_s_and_do_not_repeat_the_first():
    """Catches a name on the wrong variant, the same figure under two names, and word tokens of a
    language without spaces."""
    texts = [t.upper().replace(" .", "-x.") for t in TRANSLATIONS], [f"{r}!" for r in REFERENCES]
    found = {score.name: score for score in second_scores(*texts)}
    for name, options in (
        ("BLEU, lower-cased", dict(lowercase=True)),
        ("BLEU, international tokenisation", dict(tokenize="intl")),
        ("BLEU, lower-cased, international tokenisation", dict(tokenize="intl", lowercase=True)),
    ):
        theirs = sacrebleu.corpus_bleu(texts[0], [texts[1]], **options)
        assert found[name].value == pytest.approx(theirs.score)
        assert ("case:lc" in found[name].signature) == ("lowercase" in options)
    theirs = sacrebleu.corpus_chrf(texts[0], [texts[1]], word_order=2)
    assert found["chrF2++"].value == pytest.approx(theirs.score)
    for tokenize, count in (("13a", 4), ("intl", 3), ("none", 5), ("zh", 3)):
        first = bleu(*texts, "en-de", tokenize=tokenize)
        others = second_scores(*texts, tokenize=tokenize)
        signatures = [score.signature for score in (first, *others)]
        assert len(others) == count and len(set(signatures)) == count + 1
    assert not any("tok:13a" in s or "tok:intl" in s for s in signatures)


def test_the_interval_of_a_perplexity_is_that_of_its_sentences():
    """Catches an interval over pieces, resamples that are not paired, and EOS left uncounted."""
    counts = [3, 5, 9, 4] * 25
    log_probs = [-1.0 * n * (1 + i % 3) for i, n in enumerate(counts)]
    perplexity_of = partial(
        scores.corpus_perplexity, direction="en-de", vocab_size=50, num_bootstrap=500
    )
    score = perplexity_of(list(zip(log_probs, counts, strict=True)))
    assert score.value == pytest.approx(math.exp(-sum(log_probs) / sum(counts)))
    spread = np.std([-p / n for p, n in zip(log_probs, counts, strict=True)]) / len(counts) ** 0.5
    assert 1.2 * spread < score.interval / score.value < 3 * spread
    assert perplexity_of([(-2.0 * n, n) for n in counts]).interval < 1e-9
    assert {"unit:piece", "eos:yes", "vocab:50", "bs:500"} <= set(score.signature.split("|"))
    assert f"{score.value:.3f} ± {score.interval:.3f}" in str(score)
    none = perplexity_of([(math.nan, 300)])  # too long to be scored
    assert none.to_json()["value"] is none.interval is None and "perplexity nan" in str(none)
    assert perplexity(0.0, 0) == 1 and perplexity(1e6, 1) == math.inf


def test_line_error_rate_counts_lines_that_are_not_wholly_right():
    """Catches phones counted for words, a fraction, a forgiving comparison, half an interval."""
    ours, theirs = ["a b c", "a b", "A b", "ab", ""], ["a b c", "a c", "a b", "a b", "x"]
    texts = ours * 100, theirs * 100, "hun-ipa"
    score = score_by("line_error_rate", *texts, num_bootstrap=1000)
    assert (score.name, score.value, score.num_sentences) == ("WER (whole words)", 80, 500)
    assert {"unit:line", "match:whole", "bs:1000"} <= set(score.signature.split("|"))
    assert score.interval == pytest.approx(1.96 * math.sqrt(0.8 * 0.2 / 500) * 100, rel=0.1)
    assert score_by("line_error_rate", theirs, theirs, "hun-ipa").value == 0


def test_accuracies_and_mean_losses(monkeypatch):
    """Catches a share for a percentage, an interval of 0 where nothing went wrong, a loss in bits,
    or a perplexity of something else."""
    score = scores.accuracy([True] * 81 + [False] * 19, "2 classes")
    assert score.value == pytest.approx(81)
    assert score.interval == pytest.approx((87.45 - 72.22) / 2, abs=0.02)  # Wilson, of a table
    assert "100 examples" in str(score)
    assert scores.accuracy([True] * 50, "2 classes").interval > 3
    monkeypatch.setattr(loss, "sum_over_batches", lambda *_: {"nll": 200.0, "tokens": 100.0})
    run = SimpleNamespace(model=None, params={}, checkpoint="last (9)")
    mean, exponential = loss.evaluate_loss(run, [], "own test", "piece").scores.values()
    assert mean.value == 2.0 and exponential.value == pytest.approx(math.exp(2))
    assert "nats per piece 2.000" in str(mean) and "100 pieces" in str(mean)


def test_a_second_reference_counts_as_in_sacrebleu():
    """Catches references that are concatenated, averaged, or paired with other lines. Also a mean
    over references of a line, and the worst of an error rate."""
    for name, function in (("bleu", sacrebleu.corpus_bleu), ("ter", sacrebleu.corpus_ter)):
        score = score_by(name, OURS * 20, BOTH * 20, "en-de", num_bootstrap=50)
        assert score.value == pytest.approx(function(OURS, [FIRST, SECOND]).score)
        assert "nrefs:2" in score.signature and score.interval > 0
        assert score_by(name, OURS, [(r,) for r in FIRST], "x") == score_by(name, OURS, FIRST, "x")
    rows = [("s", *row) for row in zip(BOTH, OURS, strict=True)]
    theirs = [sacrebleu.sentence_chrf(*row) for row in zip(OURS, BOTH, strict=True)]
    assert [s.chrf for s in evaluation(rows).segments] == [score.score for score in theirs]
    assert score_by("line_error_rate", OURS, BOTH, "x").value == pytest.approx(200 / 3)
    mixed = [FIRST[0], BOTH[1], SECOND[2]]  # another number of them for each line
    assert "nrefs:var" in bleu(OURS, mixed, "x").signature


def test_comet_is_run_beside_us_on_every_reference(tmp_path, monkeypatch):
    """Catches lines that slip by a line break in one of them, and a reference without a score."""
    (tmp_path / "comet-score").write_text(FAKE_COMET)
    (tmp_path / "comet-score").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    check_metrics(["comet", "comet:Own/model", "ter"])
    sources = ["one\u2028two", "three", "four\r"]
    score = score_by("comet:Own/model", OURS, BOTH, "en-de", sources=sources)
    lengths = [(len(a) + len(b)) / 2 for a, b in BOTH]
    assert score.value == pytest.approx(sum(lengths) / 3)
    assert "model:Own/model" in score.signature.split("|")
    seen = [line.split("\t") for line in (tmp_path / "seen").read_text().splitlines()]
    assert seen[1] == ["one two", OURS[0], SECOND[0]] and len(seen) == 6
    (tmp_path / "own.ckpt").touch()
    monkeypatch.chdir(tmp_path)
    score_by("comet:own.ckpt", OURS, FIRST, "en-de", sources=sources)
    assert (tmp_path / "seen.model").read_text() == f"{tmp_path / 'own.ckpt'}\n"
    both = evaluation(further_metrics=["comet", "comet:own.ckpt"])
    assert [*both.scores][-2:] == ["comet", "comet:own.ckpt"]
    assert "COMET (comet)  COMET (comet:own.ckpt)" in scores.checkpoint_table([both])[0]
    with pytest.raises(ValueError, match="comet-score with the model bad failed: no such model"):
        score_by("comet:bad", OURS, FIRST, "en-de", sources=sources)


def test_unknown_and_missing_metrics_are_refused(monkeypatch):
    """Catches a metric that is missed only when everything is translated, or has another name."""
    for name in metrics.METRICS:
        score = score_by(name, TRANSLATIONS, REFERENCES, "en-de")
        assert score.name == metrics.METRICS[name].label
    with pytest.raises(ValueError, match="bleu, line_error_rate, ter, comet or comet:MODEL, not"):
        check_metrics(["meteor"])
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ValueError, match="pipx install unbabel-comet"):
        check_metrics(["comet"])


def bleu_without_japanese(tokenize, force):
    """Stands for sacreBLEU's BLEU where the packages for Japanese are not installed."""
    if tokenize == "ja-mecab":
        raise RuntimeError("extra dependencies")


def test_a_language_gets_a_tokenisation_that_runs(monkeypatch):
    """Catches a tokenisation whose packages are not there, and a language known by one code."""
    monkeypatch.setattr(metrics, "BLEU", bleu_without_japanese)
    for code, tokenize, reason in (
        ("de", "13a", "for the language de"),
        ("jpn", "char", "pip install 'sacrebleu[ja]'"),
        ("kor_Hang", "ko-mecab", "kor_Hang"),
        ("zh_TW", "zh", "zh_TW"),
        ("tha_Thai", "char", "tha_Thai"),
    ):
        chosen, why = metrics.choose_tokenisation(code)
        assert chosen == tokenize and reason in why


def test_training_and_evaluation_refuse_it_before_any_work(monkeypatch, tmp_path):
    """Catches a check that comes after the corpus was read, or a sentence translated."""
    cure = r"^[^\n]*pip install 'sacrebleu\[ja\]' [^\n]*\.$"
    monkeypatch.setattr(metrics, "BLEU", bleu_without_japanese)
    config = Config().with_values({"data.bleu_tokenize": "ja-mecab", "data.corpus": "no/folder"})
    with pytest.raises(ValueError, match=cure):
        transformer.train(config, tmp_path / "run", verbose=False)
    with pytest.raises(ValueError, match=cure):
        evaluate_translator(SimpleNamespace(config=config), ["a"], ["b"], "corpus")


def test_words_are_not_counted_in_silence_where_there_are_no_spaces():
    """Catches BLEU by 13a of Japanese without a word, and a warning where it is right. Also a name
    that sacreBLEU does not have, where its packages are installed or not."""
    assert "ja-mecab or char" in metrics.tokenisation_note("13a", "ja")
    for tokenize, code in (("char", "ja"), ("13a", "de"), ("13a", "ko"), ("none", "ja")):
        assert metrics.tokenisation_note(tokenize, code) == ""
    for name in {"13a", "char"} | set(metrics.BEST.values()):
        try:
            metrics.check_tokenisation(name)
        except ValueError as error:
            assert "mecab" in name and "pip install" in str(error)
