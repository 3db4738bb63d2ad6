"""The evaluate command before it computes: what it accepts, reads and writes."""

import pytest

from tests.helpers.scripts import ROOT, run
from transformer.cli import evaluate_translation
from transformer.cli.command_line import parse
from transformer.cli.commands.evaluate import main
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.score_translation import read_test_set
from transformer.config import DataConfig

FILE = f"--input={ROOT / 'pyproject.toml'}"
REFERENCE = f"--reference={ROOT / 'pyproject.toml'}"


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("translation", ["--temperature=0.5", "--sample"]),
        ("language_model", ["--temperature=0", "--prompt="]),
        ("classification", ["--jsonl", "--input=-", "--output=x.gz"]),
        ("translation", ["--compare=runs/y@5", FILE, REFERENCE]),
    ],
)
def test_flags_that_make_sense_pass(task, arguments):
    """Catches a rule that is too strict."""
    parse(EvaluateFlags, ["eval.py", *arguments]).flags.check(task)


def test_unequal_files_are_refused_before_anything_is_scored(tmp_path):
    """Catches references that are scored against the sentences of other lines."""
    (tmp_path / "a").write_text("0\n1\n")
    (tmp_path / "b").write_text("a\n")
    flags = EvaluateFlags(input=str(tmp_path / "a"), reference=str(tmp_path / "b"))
    with pytest.raises(ValueError, match="--input has 2 lines and --reference 1; they must pair"):
        read_test_set(flags, DataConfig())


def test_a_corpus_that_has_moved_is_named(make_run, monkeypatch):
    """Catches a run that can no longer be scored, as its text is somewhere else now."""
    scored = []
    monkeypatch.setattr(
        evaluate_translation, "evaluate_translation", lambda _, config: scored.append(config)
    )
    main(["eval.py", f"--workdir={make_run()}", "--corpus=moved"])
    assert scored[0].data.corpus == "moved"


def test_the_script_ends_with_code_2_and_one_line():
    """Catches an exit code or an output that only a shell sees."""
    code, out, err = run("eval.py", "--workdir=configs")
    assert (code, out) == (2, b"")
    assert err.startswith("error: ") and err.count("\n") == 1
