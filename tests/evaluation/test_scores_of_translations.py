"""What is printed and kept of a test set can be compared and read again, sentence by sentence."""

import json
import math

import pytest
import sacrebleu

from tests.helpers.scored import CORPUS, evaluation
from transformer.evaluation.metrics import score_by
from transformer.evaluation.scores import checkpoint_table
from transformer.evaluation.translation import Segment, find_faults, text_sides
from transformer.workdir import WorkDir


def strict(text):
    """JSON as other programs read it: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_everything_is_kept_with_its_signature(tmp_path):
    """Catches a score that is printed but not kept, a file that lacks a segment, Infinity in
    report.json, which most programs refuse to read, and a second score that could be taken for the
    first."""
    result = evaluation(CORPUS * 9)
    path = result.save(WorkDir(tmp_path), "test[:5%]")
    assert path == tmp_path / "results" / "test_0_5_" / "report.json"
    record = strict(path.read_text())
    scores = [record["bleu"], record["chrf"], record["perplexity"], *record["second"]]
    assert all(score["signature"] and score["interval"] is not None for score in scores)
    assert {score["num_sentences"] for score in scores} == {54}
    assert record["search"] == {"beam_size": 4} and record["checkpoint"] == "last (20)"
    assert record["outputs"]["translations"] == {"empty": 0, "copied": 0, "repeating": 0}
    assert record["worst"][0]["translation"] == "er liest viel"
    segments = [strict(line) for line in (path.parent / "segments.jsonl").read_text().splitlines()]
    assert [s["translation"] for s in segments] == [row[2] for row in CORPUS] * 9
    assert (path.parent / "translations.txt").read_text().count("\n") == 54
    assert "<h1>" in (path.parent / "report.html").read_text()
    lines = result.lines() + result.details
    scores = [line for line in lines if "bs:20|" in line]
    assert len({line.split(" ± ")[0].rstrip("0123456789. ") for line in scores}) == len(scores) == 7
    assert any(line.split()[:3] == ["11–20", "9", "sentences"] for line in lines)
    assert any("0 empty (0), 0 copied (0), 0 repeating" in line for line in lines)
    result.scores["perplexity"].value = math.inf
    assert strict(result.save(WorkDir(tmp_path), "x").read_text())["perplexity"]["value"] is None


def test_the_same_texts_give_the_same_files(tmp_path):
    """Catches a date, a random number without a seed, sets in an order, a second host writing."""
    evaluation().save(WorkDir(tmp_path, writes=False), "test")
    assert list(tmp_path.iterdir()) == []
    folders = [evaluation().save(WorkDir(tmp_path), name).parent for name in ("a", "b")]
    for name in ("report.json", "report.html", "segments.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_all_references_reach_the_scores_and_the_files(tmp_path):
    """Catches a report that has read one reference, and a file of segments that lost the other."""
    rows = [(source, (f"{reference} .", reference), ours) for source, reference, ours in CORPUS]
    several, one = evaluation(rows, further_metrics=["ter"]), evaluation()
    texts = text_sides(several.segments)
    assert several.primary == score_by("bleu", *texts, "en-de", num_bootstrap=20)
    assert several.scores["ter"].name == "TER" and "ter" not in one.scores
    folder = several.save(WorkDir(tmp_path), "x").parent
    rows = (folder / "segments.jsonl").read_text().splitlines()
    assert text_sides([Segment(**json.loads(row)) for row in rows]) == texts
    assert "other_references" not in one.segments[0].to_json()
    assert json.loads((folder / "report.json").read_text())["ter"]["value"] > 0


def test_faults_of_references_stand_beside_those_of_translations():
    """Catches copies that are right, as of names, held against a run, and lengths of characters."""
    rows = [("Berlin", "Berlin", "Berlin"), ("a dog", "ein Hund", "a, dog"), ("hi", "hallo", "")]
    outputs = evaluation(rows).outputs
    assert outputs["translations"] == {"empty": 1, "copied": 1, "repeating": 0}
    assert outputs["references"] == {"empty": 0, "copied": 1, "repeating": 0}
    assert outputs["num_tokens"] == {"translations": 4, "references": 4}
    outputs = evaluation(rows, tokenize="none").outputs
    assert outputs["num_tokens"]["translations"] == 3 and outputs["length_ratio"] == 0.75


def test_the_selection_metric_comes_first_wherever_scores_are_shown(tmp_path):
    """Catches a report of pronunciations headed by their BLEU, and lengths in words of one word."""
    rows = [("a" * n, "x y", "x y" if n % 4 else "x") for n in range(1, 21)] * 3
    result = evaluation(rows, selection_metric="line_error_rate")
    assert list(result.scores) == ["line_error_rate", "bleu", "chrf", "perplexity"]
    assert result.lines()[0].startswith("WER (whole words) 25.00 ± ")
    by_length = {name: score.value for name, score in result.by_length.items()}
    assert by_length == {"1–10": 20, "11–20": 30}
    assert "WER (whole words) by characters of the source:" in result.details
    path = result.save(WorkDir(tmp_path), "x", checkpoints=[result] * 2)
    record, page = strict(path.read_text()), (path.parent / "report.html").read_text()
    assert record["line_error_rate"]["value"] == 25
    assert record["selection_metric"] == "line_error_rate"
    assert record["checkpoints"][0]["line_error_rate"] == record["line_error_rate"]
    assert page.index("WER (whole words)</") < page.index("BLEU</") and "test WER" in page
    heads, row, _ = checkpoint_table([result] * 2)
    assert " ".join(heads.split()) == "checkpoint WER (whole words) BLEU chrF2 perplexity"
    assert len(heads) == len(row)


def test_bleu_of_a_length_is_sacrebleu_s_of_those_sentences_alone():
    """Catches a mean of sentence scores, and a sentence at the border that counts twice."""
    lengths = (1, 10, 11, 20, 61, 0)
    rows = [(" ".join(["w"] * n), *row[1:]) for n, row in zip(lengths, CORPUS, strict=True)]
    scores = evaluation(rows).by_length
    expected = {"1–10": rows[:2], "11–20": rows[2:4], "61 and more": rows[4:5]}
    assert list(scores) == list(expected)
    for lengths, inside in expected.items():
        theirs = sacrebleu.corpus_bleu([r[2] for r in inside], [[r[1] for r in inside]])
        assert scores[lengths].value == pytest.approx(theirs.score)
        assert scores[lengths].num_sentences == len(inside)


def test_the_worst_and_the_best_are_ordered_and_apart():
    """Catches an order upside down, and a short test set of which each half shows all."""
    worst, best = evaluation().worst_and_best(2)
    assert [segment.number for segment in worst] == [4, 2]
    assert [segment.number for segment in best] == [6, 1]
    for segment in worst + best:
        theirs = sacrebleu.sentence_chrf(segment.translation, [segment.reference])
        assert segment.chrf == pytest.approx(theirs.score)
    assert [len(side) for side in evaluation().worst_and_best()] == [5, 1]
    assert [len(side) for side in evaluation(CORPUS[:1]).worst_and_best()] == [1, 0]


def test_faults_by_hand():
    """Catches a loop that ends one word early, an empty source blamed on the translation, and
    Chinese counted as one word per sentence, in which no loop could ever be seen."""
    for source, translation, faults in (
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
        ("well", "好好好好", []),
    ):
        assert find_faults(source, translation, ("eng_Latn", "de")) == faults
    for code in ("ja", "jpn", "ja_XX", "jpn_Jpan", "zho_Hans", "zh-TW", "tha"):
        assert find_faults("well", "好好 好好", ("eng_Latn", code)) == ["repeating"]
