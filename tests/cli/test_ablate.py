"""The ablate command: rows are trained in turn, whatever becomes of one of them."""

import json
from types import SimpleNamespace

import pytest
from jax.errors import JaxRuntimeError

from tests.helpers import commands
from tests.helpers.random_runs import WORDS
from tests.helpers.scored import CORPUS, evaluation
from transformer.cli.commands import ablate
from transformer.config import Config
from transformer.data.tokenizers.files import save_tokenizers
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.evaluation import comparison
from transformer.evaluation.comparison import compared_run, saved_run
from transformer.exit_codes import DIVERGED, RESUMABLE
from transformer.training import ablation
from transformer.workdir import WorkDir

TABLE = """
from transformer.config import Config

ROWS = {
    "base": {},
    "wide": {"model.d_ff": lambda base: 2 * base.model.d_ff},
    "bad": {"model.dropout_rate": 0.9},
    "deep": {"model.num_layers": 3},
}
PUBLISHED = {"wide": {"BLEU": 30.5}}

def get_config():
    return Config().with_values({"model.d_model": 16, "model.num_heads": 2, "model.d_ff": 8})
"""


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

    monkeypatch.setattr(comparison, "NUM_BOOTSTRAP", 20)
    monkeypatch.setattr(comparison, "NUM_TRIALS", 20)
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
    assert "| base " in text and "| num_layers 6 → 3 |" in text and "wide" not in text
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
    assert found == compared_run(tmp_path, result.to_json(), result.segments)
    assert found.config.decoding.beam_size == result.search["beam_size"] == 4
    assert found.scores["perplexity"].figures == result.scores["perplexity"].figures
    (tmp_path / "results" / "test" / "report.json").unlink()
    with pytest.raises(ValueError, match=r"holds no scores that can be read .*eval\.py"):
        saved_run(tmp_path)


def test_mistakes_are_refused_before_anything_is_trained(trained):
    """Catches a mistake that is found when the other rows are trained."""
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


def test_the_plan_is_shown_without_training(trained):
    """Catches a dry run that begins."""
    code, _, err = commands.call("ablate.py", "--dry_run", "--rows=base,h1,n2,n4")
    assert code == 0 and trained.runs == []
    assert "h1            num_heads 4 → 1" in err and "row n4 is left out" in err
