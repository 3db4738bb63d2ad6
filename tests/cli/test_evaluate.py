"""The evaluate command before it computes: what it accepts, reads and writes."""

import pytest

from tests.helpers.scripts import ROOT
from transformer.cli.command_line import parse
from transformer.cli.commands.evaluate import EvaluateFlags, main
from transformer.evaluation import evaluation_set

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


def test_a_corpus_that_has_moved_is_named(call, make_run, monkeypatch):
    """Catches a run that can no longer be scored, as its text is somewhere else now."""
    read = []
    monkeypatch.setattr(
        evaluation_set, "load_evaluation_pairs", lambda data, *_: read.append(data.corpus) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        call(main, f"--workdir={make_run()}", "--corpus=moved")
    assert read == ["moved"]
