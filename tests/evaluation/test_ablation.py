"""An ablation trains what its file says; its table says what a row changed and what that did."""

from dataclasses import replace

import pytest

from tests.helpers.scored import CORPUS, compared, evaluation
from transformer.config import Config
from transformer.evaluation import ablation_plan, comparison
from transformer.evaluation.ablation_plan import Row, read_rows, with_num_steps
from transformer.training.ablation import make_table

ROWS = """
PUBLISHED = {"deep": {"BLEU": 1.5}}
ROWS = {
    "base": {},
    "wide": {"model.d_ff": lambda base: 2 * base.model.d_ff},
    "same": {"model.d_ff": lambda base: base.model.d_ff},
    "deep": {"model.num_layers": 8, "model.dropout_rate": 0.2},
}
"""
WORSE = [(source, reference, f"{text} x") for source, reference, text in CORPUS]
CHANGES = {"model.num_heads": (8, 1)}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "NUM_BOOTSTRAP", 20)
    monkeypatch.setattr(comparison, "NUM_TRIALS", 20)


def row(name, rows=CORPUS, changes=None, published=None, seeds=1, **settings):
    """A row and its runs, which translated `rows`; those of later seeds add a word to each."""
    changes = changes or {}
    values = {key.replace(".", "__"): after for key, (_, after) in changes.items()} | settings
    runs = [
        compared(
            f"runs/{name}",
            evaluation([(s, r, t + " y" * seed) for s, r, t in rows]),
            training__seed=seed,
            **values,
        )
        for seed in range(seeds)
    ]
    return Row(name, Config(), changes, published or {}), runs


def table_of(*rows):
    """The table of rows, and its cells: {row: {column: cell}}."""
    table = make_table(*zip(*rows, strict=True))
    return table, {cells["row"]: cells for cells in table.cells()}


def test_rows_are_planned_in_the_order_that_is_asked_for(monkeypatch, tmp_path):
    """Catches rows that build on each other, a row trained twice, and one left out in silence."""
    said, file = [], tmp_path / "rows.py"
    file.write_text(ROWS)
    monkeypatch.setattr(ablation_plan, "say", said.append)
    rows = read_rows(str(file), Config())
    assert [(row.name, row.summary) for row in rows] == [
        ("base", "the base"),
        ("wide", "d_ff 2048 → 4096"),
        ("deep", "num_layers 6 → 8, dropout_rate 0.1 → 0.2"),
    ]
    assert said == ["row same is left out: with this base it is the same as base"]
    assert rows[2].published == {"BLEU": 1.5} and rows[2].config.model.d_ff == 2048
    names = ["deep", "base"]
    assert [row.name for row in read_rows(str(file), Config(), names)] == names


def test_a_row_that_cannot_be_trained_is_named(tmp_path):
    """Catches a row that fails after hours, when its turn comes."""
    file = tmp_path / "rows.py"
    for changes, said in (
        ({"model.dff": 1}, r"row x: there is no model\.dff; did you mean model\.d_ff\?"),
        ({"model.num_heads": 3}, r"row x: model\.d_model \(512\) must be a multiple"),
        ({"model.d_ff": "wide"}, r"row x: model\.d_ff must be of type int, not 'wide'"),
    ):
        file.write_text(f"ROWS = {{'base': {{}}, 'x': {changes}}}")
        with pytest.raises(ValueError, match=said):
            read_rows(str(file), Config())


def test_the_schedule_goes_along_with_the_number_of_steps():
    """Catches a short budget that ends within the warm-up, and a decay that begins out of none."""
    base = Config().with_values({"training.num_train_steps": 1000, "optimizer.warmup_steps": 100})
    base.training.eval_every, base.training.checkpoint_every = 250, 2
    found = with_num_steps(base, 100).validate()
    training, optimizer = found.training, found.optimizer
    assert (training.num_train_steps, optimizer.warmup_steps) == (100, 10)
    assert (training.eval_every, training.checkpoint_every, optimizer.decay_steps) == (25, 1, 0)


def test_a_row_stands_beside_the_base_and_what_was_published():
    """Catches cells under the head of another column, a difference with its sign turned, and a row
    that owes its score to another search, or to another schedule."""
    base = row("base", published={"BLEU": 25.8, "parameters": 65e6})
    table, cells = table_of(base, row("h1", WORSE, CHANGES, {"BLEU": 24.9}))
    assert cells["h1"]["changes"] == "num_heads 8 → 1" and cells["h1"]["parameters"] == "1,234,567"
    assert cells["base"]["BLEU"] == base[1][0].scores["bleu"].figures
    assert cells["base"]["difference"] == cells["base"]["p"] == ""
    assert float(cells["h1"]["difference"]) < 0 < float(cells["h1"]["p"]) <= 1
    assert cells["base"]["paper: parameters"] == "65M" and cells["h1"]["paper: parameters"] == ""
    assert (cells["base"]["paper: BLEU"], cells["h1"]["paper: BLEU"]) == ("25.8", "24.9")
    assert not any("also differs" in note for note in table.notes())
    heads, rule, *rows = table.markdown().splitlines()[2:6]
    assert [cell.strip() for cell in rows[1].split("|")[1:3]] == ["h1", "num_heads 8 → 1"]
    assert heads.count("|") == rule.count("|") == rows[1].count("|")
    assert "- BLEU: `nrefs:1|" in table.markdown()
    assert table.to_json()["rows"][1]["published"] == {"BLEU": 24.9}
    assert table_of(base)[1]["base"]["difference"] == ""  # a single row is a table, too
    table, _ = table_of(base, row("h1", changes=CHANGES, decoding__beam_size=1))
    assert "h1 also differs from base in decoding.beam_size: 1, not 4." in table.notes()


def test_seeds_become_a_mean_and_a_deviation():
    """Catches the interval of one seed under the head of several, and its p-value. Also two scores
    of one name that share a column."""
    rows = row("base", seeds=3), row("h1", WORSE, seeds=3)
    for _, runs in rows:
        for number, run in enumerate(runs):
            comet = replace(run.scores["bleu"], name="COMET", value=number)
            run.scores = run.scores | {"comet": comet, "comet:own": replace(comet, value=9)}
    table, cells = table_of(*rows)
    values = [run.scores["bleu"].value for run in table.runs[0]]
    assert cells["base"]["BLEU"].startswith(f"{sum(values) / 3:.2f} ± ")
    assert "p" not in cells["h1"] and " ± " in cells["h1"]["difference"]
    assert cells["h1"]["difference"].startswith("-")
    comet = cells["h1"]["COMET (comet)"], cells["h1"]["COMET (comet:own)"]
    assert comet == ("1.00 ± 1.00", "9.00 ± 0.00")
    assert any("standard deviation over the seeds" in note for note in table.notes())


def test_runs_without_translations_have_no_tests():
    """Catches a table of classifiers that asks for references."""
    rows = [row("base"), row("h1", WORSE)]
    for _, (run,) in rows:
        run.segments = []
    table, cells = table_of(*rows)
    assert "p" not in cells["h1"] and float(cells["h1"]["difference"]) < 0
    assert not any("No paired tests" in note for note in table.notes())
    other = row("h1", [(source, "etwas anderes", text) for source, _, text in WORSE])
    notes = table_of(row("base"), other)[0].notes()
    assert "No paired tests: rows have other references than base." in notes
