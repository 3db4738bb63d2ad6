"""The table of an ablation says what a row changed and what that did."""

import dataclasses
from functools import partial

import pytest

from tests.helpers.scored import CORPUS, compared, evaluation
from transformer.evaluation import ablation_table
from transformer.evaluation.ablation_table import TableRow, make_table
from transformer.evaluation.comparison import compare

WORSE = [(source, reference, f"{text} x") for source, reference, text in CORPUS]


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    """Tests of differences are quick here."""
    few = partial(compare, num_bootstrap=20, num_trials=20)
    monkeypatch.setattr(ablation_table, "compare", few)


def row(name, rows=CORPUS, changes=None, published=None, seeds=1, **settings):
    """A row whose runs translated `rows`; those of later seeds add a word to each."""
    changes = changes or {}
    values = {key.replace(".", "__"): after for key, (_, after) in changes.items()} | settings
    runs = []
    for seed in range(seeds):
        found = evaluation([(s, r, t + " y" * seed) for s, r, t in rows])
        runs.append(compared(f"runs/{name}", found, training__seed=seed, **values))
    return TableRow(name, changes, f"{name} changes", runs, published or {})


def by_head(table):
    """{row: {column: cell}}."""
    heads, *rows = table.cells()
    return {cells[0]: dict(zip(heads, cells, strict=True)) for cells in rows}


def test_a_row_stands_beside_the_base_and_what_was_published():
    """Catches cells under the head of another column, and a difference with its sign turned."""
    base = row("base", published={"BLEU": 25.8, "parameters": 65e6})
    worse = row("h1", WORSE, {"model.num_heads": (8, 1)}, {"BLEU": 24.9})
    table = make_table([base, worse])
    cells = by_head(table)
    assert cells["h1"]["changes"] == "h1 changes" and cells["h1"]["parameters"] == "1,234,567"
    assert cells["base"]["BLEU"] == base.runs[0].scores["bleu"].figures
    assert cells["base"]["difference"] == cells["base"]["p"] == ""
    assert float(cells["h1"]["difference"]) < 0 < float(cells["h1"]["p"]) <= 1
    assert cells["base"]["paper: parameters"] == "65M" and cells["h1"]["paper: parameters"] == ""
    assert (cells["base"]["paper: BLEU"], cells["h1"]["paper: BLEU"]) == ("25.8", "24.9")
    assert not any("also differs" in note for note in table.notes())
    text = table.markdown()
    assert "| h1 | h1 changes |" in text and "nrefs:1|" in text
    assert table.to_json()["rows"][1]["published"] == {"BLEU": 24.9}


def test_seeds_become_a_mean_and_a_deviation():
    """Catches the interval of one seed under the head of several, and its p-value."""
    table = make_table([row("base", seeds=3), row("h1", WORSE, seeds=3)])
    cells = by_head(table)
    values = [run.scores["bleu"].value for run in table.rows[0].runs]
    assert cells["base"]["BLEU"].startswith(f"{sum(values) / 3:.2f} ± ")
    assert "p" not in cells["h1"] and " ± " in cells["h1"]["difference"]
    assert cells["h1"]["difference"].startswith("-")
    assert any("standard deviation over the seeds" in note for note in table.notes())


def test_what_differs_beyond_the_rows_is_said():
    """Catches a row that owes its score to another search, or to another schedule."""
    changes = {"model.num_heads": (8, 1)}
    table = make_table([row("base"), row("h1", changes=changes, decoding__beam_size=1)])
    assert "h1 also differs from base in decoding.beam_size: 1, not 4." in table.notes()


def test_runs_without_translations_have_no_tests():
    """Catches a table of classifiers that asks for references."""
    rows = [row("base"), row("h1", WORSE)]
    for found in rows:
        found.runs[0] = dataclasses.replace(found.runs[0], segments=[])
    table = make_table(rows)
    cells = by_head(table)
    assert "p" not in cells["h1"] and float(cells["h1"]["difference"]) < 0
    assert not any("No paired tests" in note for note in table.notes())
    other = row("h1", [(source, "etwas anderes", text) for source, _, text in WORSE])
    notes = make_table([row("base"), other]).notes()
    assert "No paired tests: rows have other references than base." in notes


def test_a_single_row_is_a_table():
    """Catches a division by the number of comparisons, where there is none."""
    cells = by_head(make_table([row("base")]))
    assert cells["base"]["difference"] == ""
