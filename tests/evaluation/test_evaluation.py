"""What is printed and kept of a test set can be compared and read again."""

import json
import math

import pytest

from tests.helpers.scored import CORPUS, evaluation
from transformer.evaluation.scores import checkpoint_table
from transformer.workdir import WorkDir


def strict(text):
    """JSON as other programs read it: without NaN and Infinity."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def test_everything_is_kept_with_its_signature(tmp_path):
    """Catches a score that is printed but not kept, and a file that lacks a segment."""
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


def test_the_same_texts_give_the_same_files(tmp_path):
    """Catches a date, a random number without a seed, sets in an order, a second host writing."""
    evaluation().save(WorkDir(tmp_path, writes=False), "test")
    assert list(tmp_path.iterdir()) == []
    folders = [evaluation().save(WorkDir(tmp_path), name).parent for name in ("a", "b")]
    for name in ("report.json", "report.html", "segments.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_a_perplexity_beyond_a_float_is_still_json(tmp_path):
    """Catches Infinity in report.json, which most programs refuse to read."""
    result = evaluation()
    result.scores["perplexity"].value = math.inf
    assert strict(result.save(WorkDir(tmp_path), "x").read_text())["perplexity"]["value"] is None


def test_lines_name_every_score_and_count():
    """Catches a second score that could be taken for the first."""
    result = evaluation(CORPUS * 9)
    lines = result.lines() + result.details
    scores = [line for line in lines if "bs:20|" in line]
    assert len({line.split(" ± ")[0].rstrip("0123456789. ") for line in scores}) == len(scores) == 7
    assert any(line.split()[:3] == ["11–20", "9", "sentences"] for line in lines)
    assert any("0 empty (0), 0 copied (0), 0 repeating" in line for line in lines)


def test_faults_of_references_stand_beside_those_of_translations():
    """Catches copies that are right, as of names and numbers, held against a run."""
    rows = [("Berlin", "Berlin", "Berlin"), ("a dog", "ein Hund", "a dog"), ("hi", "hallo", "")]
    outputs = evaluation(rows).outputs
    assert outputs["translations"] == {"empty": 1, "copied": 2, "repeating": 0}
    assert outputs["references"] == {"empty": 0, "copied": 1, "repeating": 0}
    assert outputs["num_tokens"] == {"translations": 3, "references": 4}
    assert outputs["length_ratio"] == 0.75


def test_the_selection_metric_comes_first_wherever_scores_are_shown(tmp_path):
    """Catches a report of pronunciations headed by their BLEU, and lengths in words of one word."""
    rows = [("a" * n, "x y", "x y" if n % 4 else "x") for n in range(1, 21)] * 3
    result = evaluation(rows, selection_metric="line_error_rate")
    assert list(result.scores) == ["line_error_rate", "bleu", "chrf", "perplexity"]
    assert result.lines()[0].startswith("WER (whole words) 25.00 ± ")
    assert {name: score.value for name, score in result.by_length.items()} == {
        "1–10": 20,
        "11–20": 30,
    }
    assert "WER (whole words) by characters of the source:" in result.details
    path = result.save(WorkDir(tmp_path), "x", checkpoints=[result] * 2)
    record, page = strict(path.read_text()), (path.parent / "report.html").read_text()
    assert (
        record["line_error_rate"]["value"] == 25 and record["selection_metric"] == "line_error_rate"
    )
    assert record["checkpoints"][0]["line_error_rate"] == record["line_error_rate"]
    assert page.index("WER (whole words)</") < page.index("BLEU</") and "test WER" in page
    heads, row, _ = checkpoint_table([result] * 2)
    assert " ".join(heads.split()) == "checkpoint WER (whole words) BLEU chrF2 perplexity"
    assert len(heads) == len(row)
