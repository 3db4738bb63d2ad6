"""A difference between two runs is called one only where there is one."""

import random

import pytest
from sacrebleu.metrics import TER

from tests.helpers.scored import compared, evaluation
from transformer.config import Config
from transformer.evaluation import comparison
from transformer.evaluation.comparison import Comparison, check_comparable, compare_runs

WORDS = ["der", "Mann", "mit", "dem", "Hut", "geht", "heute", "langsam", "durch", "den", "Park"]


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "NUM_BOOTSTRAP", 200)
    monkeypatch.setattr(comparison, "NUM_TRIALS", 300)


def compare(first, second):
    return compare_runs([compared("runs/a", first), compared("runs/b", second)])


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
    """Catches sacrebleu's p = 0.001 for a difference of nothing, a table, a signature or a note
    that is not printed, and settings of no difference."""
    found = compare(evaluation(), evaluation())
    tests = [(t.p_bootstrap, t.p_randomisation, t.p_holm, t.difference) for t in found.differences]
    assert tests == [(1, 1, 1, 0)] * 2
    assert not any(found.differing_segments(1, 5).values())
    lines = found.lines()
    assert " ".join(lines[0].split()) == "run checkpoint parameters step BLEU chrF2 perplexity"
    assert "The runs have the same settings." in lines and lines[4].split()[:2] == ["against", "a"]
    assert sum("ar:300" in line for line in lines) == 2 and lines[-1].startswith("p: how often")


def test_the_sentences_that_differ_most_are_shown():
    """Catches gains shown as losses, in the wrong order, or of two different sentences."""
    good, bad = evaluation(texts(0.1)), evaluation(texts(0.6), checkpoint="best (7)")
    runs = [compared("b", bad), compared("a", good)]
    ahead = Comparison(runs).differing_segments(1, 5)
    behind = Comparison(runs[::-1]).differing_segments(1, 5)
    best = ahead["a is ahead"]
    gains = [other.chrf - first.chrf for first, other in best]
    assert gains == sorted(gains, reverse=True) and gains[-1] > 0 and len(gains) == 5
    assert [(b, a) for a, b in best] == behind["b is behind"]
    assert all(other.chrf < first.chrf for first, other in ahead["a is behind"])
    assert all(first.number == other.number for first, other in best)


def test_each_of_several_runs_is_tested_against_the_first():
    """Catches runs tested against their neighbour, p-values of many tests as if of one, a step-down
    that is not monotone, and p-values handed to other tests."""
    noise = {"runs/first": 0.3, "runs/same": 0.3, "runs/worse": 0.6, "runs/better": 0.0}
    found = compare_runs([compared(path, evaluation(texts(n))) for path, n in noise.items()])
    by_bleu = {t.run: t for t in found.differences if t.metric == "BLEU"}
    assert list(by_bleu) == ["same", "worse", "better"] and len(found.differences) == 6
    assert by_bleu["same"].difference == 0 and by_bleu["same"].p_holm == 1
    assert by_bleu["worse"].difference < -10 < 10 < by_bleu["better"].difference
    assert by_bleu["worse"].p_bootstrap < 0.01 and by_bleu["worse"].p_randomisation < 0.01
    assert "bs:200" in by_bleu["worse"].signatures[0]
    assert found.to_json()["runs"][2]["bleu"]["value"] == found.runs[2].primary.value
    assert by_bleu["worse"].p_holm == 3 * by_bleu["worse"].p_randomisation < 0.05
    lines = found.lines()
    assert any("p, Holm" in line for line in lines)
    assert any("corrected for the 3 comparisons" in line for line in lines)
    assert comparison.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert comparison.holm([0.6, 0.7]) == [1, 1] and comparison.holm([]) == []


def test_a_metric_may_have_another_name_in_sacrebleu():
    """Catches a registered metric whose paired test is looked for under its label."""
    systems = {str(noise): [row[2] for row in texts(noise)] for noise in (0.1, 0.6)}
    references = [row[1] for row in texts(0)]
    (found,) = comparison.paired_differences(systems, references, {"edits": TER()})
    assert found.metric == "edits" and found.difference > 10 and "ar:300" in found.signatures[1]


def test_only_the_settings_that_differ_are_shown():
    """Catches a table of all settings, values under the name of another run, a 0, as many layers as
    in the encoder, for another number, and perplexities per other tokens as if comparable."""
    runs = [
        compared("a", evaluation(), model__num_decoder_layers=0, training__init_from=""),
        compared("b", evaluation(), model__num_decoder_layers=6, training__init_from="runs/x"),
        compared("c", evaluation(), vocabulary=2, model__num_decoder_layers=1),
    ]
    head, found = "settings that differ", Comparison(runs)
    assert found.tables()[2] == [
        {head: "--config.model.num_decoder_layers", "a": "6", "b": "6", "c": "1"},
        {head: "--config.training.init_from", "a": "''", "b": "runs/x", "c": "''"},
    ]
    assert [*Comparison(runs[:2]).settings()] == ["--config.training.init_from"]
    assert [run["has_comparable_perplexity"] for run in found.to_json()["runs"]] == [1, 1, 0]
    marked = [line for line in found.lines() if "*" in line]
    assert len(marked) == 2 and marked[1].startswith("*: per token of another vocabulary")


def test_runs_have_short_names_that_differ():
    """Catches a table whose columns have the same head."""
    results = [evaluation(num_bootstrap=1, checkpoint=number) for number in "12"]
    for paths, names in (
        (["runs/a/", "runs/b"], ["a", "b"]),
        (["x/a", "y/a"], ["x/a", "y/a"]),
        (["x/a", "x/a"], ["x/a 1", "x/a 2"]),
    ):
        assert Comparison(list(map(compared, paths, results))).names == names


def test_all_are_scored_as_the_first():
    """Catches a BLEU of words between spaces that is set against one of mteval's tokens."""
    rows = [(source, f"{reference}.", f"{ours}.") for source, reference, ours in texts(0.3)]
    other = evaluation(rows, tokenize="none")
    for first, name, signature in (
        ({"tokenize": "13a"}, "BLEU", "tok:13a"),
        ({"selection_metric": "line_error_rate"}, "WER (whole words)", "unit:line"),
    ):
        found = compare(evaluation(rows, **first), other)
        score, test = found.runs[1].primary, found.differences[0]
        assert (score.name, test.metric, test.difference) == (name, name, 0)
        assert signature in score.signature and score.value != other.primary.value


def test_translations_without_a_single_match_are_compared():
    """Catches sacrebleu's failure to average a chrF of 0 with others."""
    rows = [("s", "aaa", "zzz"), ("s", "bbb", "yyy")]
    found = compare(evaluation(rows), evaluation([(*r[:2], r[1]) for r in rows]))
    assert found.first.scores["chrf"].value == found.first.primary.value == 0


def test_runs_that_read_other_texts_are_refused():
    """Catches a comparison of English with German, of words with pieces of them, and of scores of
    two test sets."""
    turned = {"data.source_language": "de", "data.target_language": "en"}
    check_comparable(Config(), Config(), "runs/y")
    for changes, said in (
        (turned, "the first has languages en-de, runs/y de-en"),
        ({"tokenizer.target_kind": "pieces"}, "runs/y sentencepiece and pieces"),
        ({"task": "language_model"}, "the first has task translation"),
    ):
        with pytest.raises(ValueError, match=said):
            check_comparable(Config(), Config().with_values(changes), "runs/y")
    with pytest.raises(ValueError, match="different references"):
        compare(evaluation(), evaluation([(s, f"{r} !", t) for s, r, t in texts(0)]))
