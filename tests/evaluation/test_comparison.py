"""A difference between two runs is called one only where there is one."""

import dataclasses
import random
from functools import partial

import pytest
from sacrebleu.metrics import TER

from tests.helpers.scored import compared, evaluation
from transformer.config import Config
from transformer.evaluation import comparison
from transformer.evaluation.comparison import check_comparable, distinct_names
from transformer.evaluation.comparison_tables import comparison_lines, settings_table
from transformer.evaluation.paired_tests import holm, paired_differences

compare = partial(comparison.compare, num_bootstrap=200, num_trials=300)


def compare_two(first, other, names=("runs/a", "runs/b")):
    """The comparison of two evaluations, by the names of their runs."""
    return compare([compared(name, side) for name, side in zip(names, (first, other), strict=True)])


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
    found = compare_two(evaluation(), evaluation(), ("runs/x", "runs/x"))
    tests = [(t.p_bootstrap, t.p_randomisation, t.p_holm, t.difference) for t in found.differences]
    assert tests == [(1, 1, 1, 0)] * 2
    assert not any(found.differing_segments(1).values())
    assert len(set(found.names)) == 2 and found.settings() == {}


def test_a_clearly_worse_run_differs_in_both_directions():
    """Catches a test of unpaired sentences, a sign the wrong way round, and swapped systems."""
    good, bad = evaluation(texts(0.1)), evaluation(texts(0.6), checkpoint="best (7)")
    behind, ahead = compare_two(good, bad), compare_two(bad, good, ("b", "a"))
    for found, sign in ((ahead, 1), (behind, -1)):
        for test in found.differences:
            assert test.p_bootstrap < 0.01 and test.p_randomisation < 0.01
            assert sign * test.difference > 10
            assert "bs:200" in test.signatures[0] and "ar:300" in test.signatures[1]
    best, worst = ahead.differing_segments(1).values()
    mirrored_worst, mirrored_best = behind.differing_segments(1).values()
    gains = [pair.other.chrf - pair.first.chrf for pair in best]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0 and len(gains) == 5
    assert all(pair.other.chrf < pair.first.chrf for pair in worst + mirrored_best)
    assert [(b, a) for a, b in best] == mirrored_best and len(worst) == len(mirrored_worst)
    assert all(pair.first.number == pair.other.number for pair in best)
    assert list(ahead.differing_segments(1)) == ["a is ahead", "a is behind"]
    assert ahead.to_json()["runs"][1]["bleu"]["value"] == good.primary.value


def test_each_of_several_runs_is_tested_against_the_first():
    """Catches runs tested against their neighbour, and p-values of many tests as if of one."""
    noise = {"runs/first": 0.3, "runs/same": 0.3, "runs/worse": 0.6, "runs/better": 0.0}
    found = compare([compared(path, evaluation(texts(share))) for path, share in noise.items()])
    by_bleu = {found.names[t.system]: t for t in found.differences if t.metric == "BLEU"}
    assert list(by_bleu) == ["same", "worse", "better"] and len(found.differences) == 6
    assert by_bleu["same"].difference == 0 and by_bleu["same"].p_holm == 1
    assert by_bleu["worse"].difference < -10 < 10 < by_bleu["better"].difference
    assert by_bleu["worse"].p_holm == 3 * by_bleu["worse"].p_randomisation < 0.05
    lines = comparison_lines(found)
    assert any("p, Holm" in line for line in lines)
    assert any("corrected for the 3 comparisons" in line for line in lines)


def test_a_metric_may_have_another_name_in_sacrebleu():
    """Catches a registered metric whose paired test is looked for under its label."""
    systems = [[row[2] for row in texts(noise)] for noise in (0.1, 0.6)]
    references = [row[1] for row in texts(0)]
    (found,) = paired_differences(
        systems, references, {"edits": TER()}, num_bootstrap=10, num_trials=10
    )
    assert found.metric == "edits" and found.difference > 10 and "ar:10" in found.signatures[1]


def test_holm_s_correction():
    """Catches a step-down that is not monotone, and p-values handed to other tests."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1, 1] and holm([]) == []


def test_only_the_settings_that_differ_are_shown():
    """Catches a table of all settings, and values under the name of another run."""
    runs = [
        compared("a", evaluation(), model__num_heads=4, training__init_from=""),
        compared("b", evaluation(), model__num_heads=4, training__init_from="runs/x"),
        compared("c", evaluation(), model__num_heads=1, training__init_from=""),
    ]
    assert settings_table(compare(runs, num_bootstrap=5, num_trials=5)) == [
        ["settings that differ", "a", "b", "c"],
        ["--config.model.num_heads", "4", "4", "1"],
        ["--config.training.init_from", "''", "runs/x", "''"],
    ]


def test_settings_that_follow_another_are_shown_with_its_value():
    """Catches a decoder of 0 layers in the table, and one that differs from another in words."""
    depths = {"a": (2, 1), "b": (2, 0), "c": (2, 2)}
    runs = {
        name: compared(name, evaluation(), model__num_layers=n, model__num_decoder_layers=m)
        for name, (n, m) in depths.items()
    }
    found = compare(list(runs.values()), num_bootstrap=5, num_trials=5)
    assert found.settings() == {"--config.model.num_decoder_layers": [1, 2, 2]}
    assert compare([runs["b"], runs["c"]], num_bootstrap=5, num_trials=5).settings() == {}


def test_a_perplexity_of_another_vocabulary_is_marked():
    """Catches perplexities per other tokens that stand side by side as if comparable."""
    runs = [compared(name, evaluation(), vocabulary=number) for number, name in enumerate("abb")]
    runs[1] = dataclasses.replace(runs[1], vocabulary=runs[0].vocabulary)
    found = compare(runs, num_bootstrap=5, num_trials=5)
    assert [found.has_comparable_perplexity(run) for run in found.runs] == [True, True, False]
    marked = [line for line in comparison_lines(found) if "*" in line]
    assert len(marked) == 2 and marked[1].startswith("*: per token of another vocabulary")


def test_tables_fit_the_terminal():
    """Catches lines that a terminal breaks, and a part of a table whose rows have no names."""
    rows = [compared(f"runs/a_rather_long_name_{n}", evaluation()) for n in range(3)]
    found = compare(rows, num_bootstrap=5, num_trials=5)
    tables = comparison_lines(found, 60)
    tables = tables[: tables.index("The runs have the same settings.")]
    assert max(map(len, tables)) <= 60
    assert sum(line.startswith("a_rather_long_name_0 ") for line in tables) > 1
    wide = comparison_lines(found)
    heads = ["run", "checkpoint", "parameters", "step", "BLEU", "chrF2", "perplexity"]
    assert wide[0].split() == heads and set(" ".join(heads).split()) <= set(
        " ".join(tables).split()
    )


def test_runs_have_short_names_that_differ():
    """Catches a table whose columns have the same head."""
    assert distinct_names(["runs/a/", "runs/b"], ["1", "1"]) == ["a", "b"]
    assert distinct_names(["x/a", "y/a"], ["1", "1"]) == ["x/a", "y/a"]
    assert distinct_names(["x/a", "x/a"], ["1", "2"]) == ["x/a 1", "x/a 2"]
    assert len(set(distinct_names(["x/a", "x/a"], ["1", "1"]))) == 2


def test_pronunciations_are_compared_by_their_line_error_rate():
    """Catches a run with fewer whole words right that is called better for its n-grams."""
    rows = [(f"w{i}", "a b c d", "a b c d") for i in range(60)]
    worse = [(*row[:2], "a b c x" if i % 3 else row[1]) for i, row in enumerate(rows)]
    found = compare_two(*(evaluation(r, selection_metric="line_error_rate") for r in (rows, worse)))
    test, score = found.differences[0], found.runs[0].scores["line_error_rate"]
    assert (test.metric, score.name, score.value) == ("WER (whole words)", "WER (whole words)", 0)
    assert round(test.difference, 2) == 66.67
    assert test.p_bootstrap < 0.01 and test.p_randomisation < 0.01
    assert "unit:line" in score.signature and "ar:300" in test.signatures[1]


def test_all_are_scored_as_the_first():
    """Catches a BLEU of words between spaces that is set against one of mteval's tokens."""
    rows = [(source, f"{reference}.", f"{ours}.") for source, reference, ours in texts(0.3)]
    other = evaluation(rows, tokenize="none")
    found = compare_two(evaluation(rows), other)
    score = found.runs[1].scores["bleu"]
    assert found.differences[0].difference == 0 and "tok:13a" in score.signature
    assert score.value != other.primary.value


def test_translations_without_a_single_match_are_compared():
    """Catches sacrebleu's failure to average a chrF of 0 with others."""
    rows = [("s", "aaa", "zzz"), ("s", "bbb", "yyy")]
    found = compare_two(evaluation(rows), evaluation([(*r[:2], r[1]) for r in rows]))
    assert [score.value for score in list(found.first.scores.values())[:2]] == [0, 0]


def test_other_references_and_other_directions_are_refused():
    """Catches a comparison of scores of two test sets, or of English with German."""
    with pytest.raises(ValueError, match="different references"):
        compare_two(evaluation(), evaluation([(s, f"{r} !", t) for s, r, t in texts(0)]))
    ours, back, pieces = Config(), Config(), Config()
    back.data = dataclasses.replace(back.data, source_language="de", target_language="en")
    pieces.tokenizer = dataclasses.replace(pieces.tokenizer, kind="pieces")
    check_comparable(ours, Config(), "runs/y")
    with pytest.raises(ValueError, match="the first has en-de, runs/y de-en"):
        check_comparable(ours, back, "runs/y")
    with pytest.raises(ValueError, match=r"runs/y tokenizer\.kind=pieces"):
        check_comparable(ours, pieces, "runs/y")
    pieces.tokenizer.kind, pieces.tokenizer.target_kind = "sentencepiece", "pieces"
    with pytest.raises(ValueError, match=r"runs/y tokenizer\.target_kind=pieces"):
        check_comparable(ours, pieces, "runs/y")
