"""An ablation trains what its file says, whatever becomes of a row, and tabulates what that did."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from jax.errors import JaxRuntimeError

from tests.helpers import commands
from tests.helpers.random_runs import WORDS
from tests.helpers.scored import CORPUS, compared, evaluation
from transformer.cli.commands import ablate
from transformer.config import Config
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.evaluation import ablation_plan, comparison
from transformer.evaluation.ablation_plan import Row, read_rows, with_num_steps
from transformer.evaluation.comparison import compared_run, saved_run
from transformer.exit_codes import DIVERGED, RESUMABLE
from transformer.training import ablation
from transformer.training.ablation import make_table
from transformer.workdir import WorkDir

TABLE = """
from transformer.config import Config

ROWS = {
    "base": {},
    "wide": {"model.d_ff": lambda base: 2 * base.model.d_ff},
    "same": {"model.d_ff": lambda base: base.model.d_ff},
    "bad": {"model.dropout_rate": 0.9},
    "deep": {"model.num_layers": 3, "model.dropout_rate": 0.2},
}
PUBLISHED = {"wide": {"BLEU": 30.5}}

def get_config():
    return Config().with_values({"model.d_model": 16, "model.num_heads": 2, "model.d_ff": 8})
"""


WORSE = [(source, reference, f"{text} x") for source, reference, text in CORPUS]
CHANGES = {"model.num_heads": (8, 1)}


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "NUM_BOOTSTRAP", 20)
    monkeypatch.setattr(comparison, "NUM_TRIALS", 20)


@pytest.fixture
def table(tmp_path):
    """A file that is a base configuration and its rows."""
    file = tmp_path / "rows.py"
    file.write_text(TABLE)
    return [f"--config={file}", f"--table={file}", f"--workdir={tmp_path / 'runs'}"]


@pytest.fixture
def trained(monkeypatch):
    """Replaces training: notes the runs; `outcomes` says with what some of them end, by name."""
    done, outcomes = [], {}

    def train(config, workdir):
        outcome = outcomes.get(workdir.name, 0)
        if isinstance(outcome, Exception):
            raise outcome
        done.append(workdir.name)
        if outcome == 0:
            folder = WorkDir(workdir)
            workdir.mkdir(parents=True)
            save_tokenizers(workdir, *[PiecesTokenizer(WORDS, "@@")] * 2)
            folder.save_config(config)
            words = " x" * (config.model.num_layers + config.training.seed)
            evaluation([(s, r, t + words) for s, r, t in CORPUS]).save(folder, "test")
        return SimpleNamespace(exit_code=outcome)

    monkeypatch.setattr(ablation, "train", train)
    monkeypatch.setitem(commands.COMMANDS, "ablate.py", ablate.main)
    return SimpleNamespace(runs=done, outcomes=outcomes)


@pytest.mark.long
def test_a_row_that_fails_does_not_keep_the_others(table, trained, tmp_path):
    """Catches a night of training that ends at the first row that diverges, with exit code 0."""
    trained.outcomes |= {"bad": DIVERGED, "wide": ValueError("no such corpus.")}
    code, out, err = commands.call("ablate.py", *table)
    assert code == 2 and trained.runs == ["base", "bad", "deep"]
    assert "error: row wide: no such corpus." in err and "these rows failed: wide, bad" in err
    text = (tmp_path / "runs" / "table.md").read_text()
    assert "| base " in text and "| num_layers 6 → 3, " in text and "wide" not in text
    assert text.splitlines()[-1] and "num_layers 6 → 3" in out.decode()
    record = json.loads((tmp_path / "runs" / "table.json").read_text())
    assert [row["name"] for row in record["rows"]] == ["base", "deep"]
    counts = [row["runs"][0]["num_parameters"] for row in record["rows"]]
    assert counts[0] > 1.8 * counts[1] > 0
    assert "<h2>Paired tests</h2>" in (tmp_path / "runs" / "report.html").read_text()


def test_a_row_that_is_interrupted_ends_the_command_not_one_that_fails(table, trained, tmp_path):
    """Catches rows begun after the signal that was to end them all, or none after a failure; and a
    device that is too small, told by a traceback."""
    trained.outcomes |= {"wide": JaxRuntimeError("RESOURCE_EXHAUSTED: 2 GB"), "bad": RESUMABLE}
    code, _, err = commands.call("ablate.py", *table)
    assert code == RESUMABLE and "Traceback" not in err
    assert "error: row wide: the memory is not enough (RESOURCE_EXHAUSTED: 2 GB); " in err
    assert trained.runs == ["base", "bad"] and not (tmp_path / "runs" / "table.md").exists()


def test_seeds_have_folders_of_their_own(table, trained):
    """Catches seeds that share a work directory, and the run of the base's own trained again."""
    words = "--rows=deep,base", "--seeds=0,2", "--steps=50"
    code, out, err = commands.call("ablate.py", *table, *words)
    assert code == 0, err
    assert trained.runs == ["deep", "deep_seed2", "base", "base_seed2"]
    assert "50 steps" in err and b"standard deviation over the seeds" in out


@pytest.mark.long
def test_a_saved_run_is_the_run_that_was_scored(tmp_path):
    """Catches scores, sentences or settings that are lost on the way through the files."""
    workdir, result = WorkDir(tmp_path), evaluation()
    save_tokenizers(tmp_path, *[PiecesTokenizer(WORDS, "@@")] * 2)
    workdir.save_config(Config().with_values({"decoding.beam_size": 9}))
    result.save(workdir, "test")
    found = saved_run(tmp_path)
    assert found == compared_run(workdir, result.to_json(), result.segments)
    assert found.config.decoding.beam_size == result.search["beam_size"] == 4
    assert found.scores["perplexity"].figures == result.scores["perplexity"].figures
    (tmp_path / "results" / "test" / "report.json").unlink()
    with pytest.raises(ValueError, match=r"holds no scores that can be read .*eval\.py"):
        saved_run(tmp_path)


def test_nothing_is_trained_for_a_mistake_or_a_plan(trained):
    """Catches a mistake that is found when other rows are trained, and a dry run that begins."""
    for argument, said in (
        ("--rows=base,h9", "there is no row 'h9'; the rows are base, h1"),
        ("--table=nowhere.py", "--table must name a Python file"),
        ("--table=configs/digits.py", "digits.py: it must define ROWS"),
        ("--seeds=0,x", "--seeds must be whole numbers with commas between, not 'x'"),
        ("--steps=0", "--steps must be at least 1"),
        ("--row=base", "did you mean --rows?"),
    ):
        code, out, err = commands.call("ablate.py", argument)
        assert (code, out, trained.runs) == (2, b"", [])
        assert said in err and err.count("\n") == 1 and err.startswith("error: ")
    code, _, err = commands.call("ablate.py", "--dry_run", "--rows=base,h1,n2,n4")
    assert code == 0 and trained.runs == []
    assert "h1            num_heads 4 → 1" in err and "row n4 is left out" in err


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


def test_rows_are_planned_in_the_order_that_is_asked_for(monkeypatch, table, tmp_path):
    """Catches rows that build on each other, a row trained twice, and one left out in silence."""
    said, file = [], str(tmp_path / "rows.py")
    monkeypatch.setattr(ablation_plan, "say", said.append)
    rows = read_rows(file, Config())
    assert {row.name: row.summary for row in rows} == {
        "base": "the base",
        "wide": "d_ff 2048 → 4096",
        "bad": "dropout_rate 0.1 → 0.9",
        "deep": "num_layers 6 → 3, dropout_rate 0.1 → 0.2",
    }
    assert said == ["row same is left out: with this base it is the same as base"]
    assert rows[1].published == {"BLEU": 30.5} and rows[3].config.model.d_ff == 2048
    assert [row.name for row in read_rows(file, Config(), ["deep", "base"])] == ["deep", "base"]


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
