"""A difference between two runs is called one only where there is one."""

import dataclasses
import random
from functools import partial

import pytest

from tests.helpers.scored import evaluation
from transformer.config import Config
from transformer.evaluation import compare_runs
from transformer.evaluation.compare_runs import check_comparable

compare = partial(compare_runs.compare, num_bootstrap=200, num_trials=300)

WORDS = ["der", "Mann", "mit", "dem", "Hut", "geht", "heute", "langsam", "durch", "den", "Park"]


def texts(noise, count=40):
    """Triples (source, reference, translation) in which a share `noise` of the words is wrong."""
    rng, errors = random.Random(0), random.Random(1)
    rows = []
    for number in range(count):
        reference = [rng.choice(WORDS) for _ in range(rng.randint(6, 12))]
        wrong = [errors.choice(WORDS) if errors.random() < noise else w for w in reference]
        rows.append((f"source {number}", " ".join(reference), " ".join(wrong)))
    return rows


def test_a_run_does_not_differ_from_itself():
    """Catches sacrebleu's p = 0.001 for a difference of nothing."""
    found = compare(("runs/x", "runs/x"), evaluation(), evaluation())
    assert [(t.p_bootstrap, t.p_randomisation, t.difference) for t in found.tests] == [
        (1, 1, 0)
    ] * 2
    assert not any(found.differing_segments().values())
    assert found.names == ("runs/x", "runs/x again")


def test_a_clearly_worse_run_differs_in_both_directions():
    """Catches a test of unpaired sentences, a sign the wrong way round, and swapped systems."""
    good, bad = evaluation(texts(0.1)), evaluation(texts(0.6), checkpoint="best (7)")
    ahead, behind = compare(("a", "b"), good, bad), compare(("b", "a"), bad, good)
    for found, sign in ((ahead, 1), (behind, -1)):
        for test in found.tests:
            assert test.p_bootstrap < 0.01 and test.p_randomisation < 0.01
            assert sign * test.difference > 10
            assert "bs:200" in test.signatures[0] and "ar:300" in test.signatures[1]
    best, worst = ahead.differing_segments().values()
    mirrored_worst, mirrored_best = behind.differing_segments().values()
    gains = [ours.chrf - theirs.chrf for ours, theirs in best]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0 and len(gains) == 5
    assert all(ours.chrf < theirs.chrf for ours, theirs in worst + mirrored_best)
    assert [(b, a) for a, b in best] == mirrored_best and len(worst) == len(mirrored_worst)
    assert all(ours.number == theirs.number for ours, theirs in best)
    assert "a (last (20)) against b (best (7)):" in ahead.lines()
    assert ahead.to_json()["tests"][0]["ours"]["value"] == good.primary.value


def test_pronunciations_are_compared_by_their_line_error_rate():
    """Catches a run with fewer whole words right that is called better for its n-grams."""
    rows = [(f"w{i}", "a b c d", "a b c d") for i in range(60)]
    worse = [(*row[:2], "a b c x" if i % 3 else row[1]) for i, row in enumerate(rows)]
    sides = [evaluation(r, selection_metric="line_error_rate") for r in (rows, worse)]
    first = compare(("a", "b"), *sides).tests[0]
    assert (first.ours.name, first.ours.value) == ("WER (whole words)", 0)
    assert round(first.difference, 2) == -66.67
    assert first.p_bootstrap < 0.01 and first.p_randomisation < 0.01
    assert "unit:line" in first.theirs.signature and "ar:300" in first.signatures[1]
    again = compare(("a", "a"), sides[0], sides[0]).tests[0]
    assert again.p_bootstrap == again.p_randomisation == 1


def test_two_checkpoints_of_a_run_are_told_apart():
    """Catches a table whose two columns have the same head."""
    found = compare(("x", "x"), evaluation(checkpoint="1"), evaluation(checkpoint="2"))
    assert found.names == ("1", "2")


def test_both_are_scored_as_the_first():
    """Catches a BLEU of words between spaces that is set against one of mteval's tokens."""
    rows = [(source, f"{reference}.", f"{ours}.") for source, reference, ours in texts(0.3)]
    other = evaluation(rows, tokenize="none")
    test = compare(("a", "b"), evaluation(rows), other).tests[0]
    assert test.difference == 0 and "tok:13a" in test.theirs.signature
    assert test.theirs.value != other.primary.value


def test_translations_without_a_single_match_are_compared():
    """Catches sacrebleu's failure to average a chrF of 0 with others."""
    rows = [("s", "aaa", "zzz"), ("s", "bbb", "yyy")]
    found = compare(("a", "b"), evaluation(rows), evaluation([(*r[:2], r[1]) for r in rows]))
    assert [test.ours.value for test in found.tests] == [0, 0]


def test_other_references_and_other_directions_are_refused():
    """Catches a comparison of scores of two test sets, or of English with German."""
    with pytest.raises(ValueError, match="different references"):
        compare(("a", "b"), evaluation(), evaluation([(s, f"{r} !", t) for s, r, t in texts(0)]))
    ours, back, pieces = Config(), Config(), Config()
    back.data = dataclasses.replace(back.data, source_language="de", target_language="en")
    pieces.tokenizer = dataclasses.replace(pieces.tokenizer, kind="pieces")
    check_comparable(ours, Config(), "runs/y")
    with pytest.raises(ValueError, match="this one has en-de, runs/y de-en"):
        check_comparable(ours, back, "runs/y")
    with pytest.raises(ValueError, match=r"runs/y tokenizer\.kind=pieces"):
        check_comparable(ours, pieces, "runs/y")
    pieces.tokenizer.kind, pieces.tokenizer.target_kind = "sentencepiece", "pieces"
    with pytest.raises(ValueError, match=r"runs/y tokenizer\.target_kind=pieces"):
        check_comparable(ours, pieces, "runs/y")
