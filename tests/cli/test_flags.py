"""Flags that are declared once: what is parsed, refused and printed follows from that."""

from dataclasses import dataclass

import pytest

from tests.cli.mistakes import FILE, REFERENCE
from tests.helpers.commands import call
from transformer.cli import command_line
from transformer.cli.command_line import help_text
from transformer.cli.commands.ablate import AblateFlags
from transformer.cli.commands.evaluate import LINES, SEARCH, EvaluateFlags
from transformer.cli.commands.export import ExportFlags
from transformer.cli.commands.prepare import PrepareFlags
from transformer.cli.commands.train import TrainFlags
from transformer.cli.flags import CommonFlags, flag, flags_of, given_flags, split_paths
from transformer.evaluation import evaluation_set
from transformer.inference.file_job import translate_file
from transformer.registry import OWN_TASK, TASKS


@dataclass(frozen=True)
class Inherited(CommonFlags):
    last: int = flag(-1, "Comes last.", "N")


@dataclass(frozen=True)
class Flags(Inherited):
    input: str = flag("", "A file.", "FILE", reads=True)
    other: str = flag("", "Another file.", "FILE", reads=True)
    size: int = flag(1, "A size.", "N", at_least=1)
    rate: float | None = flag(None, "A rate.", needs=("size", "fast"))
    fast: bool = flag(False, "Quickly.", excludes=("slow",))
    slow: bool | None = flag(None, "Slowly.", tasks=("images",))
    kind: str | None = flag(None, "A kind.", choices=("a", "b"))


def parse(*words):
    return command_line.parse(Flags, ["program", *words]).flags


def test_values_have_the_types_of_their_fields():
    """Catches a flag that is parsed as another type, and False that passes for "not given"."""
    assert parse() == Flags()
    flags = parse("--size=2", "--rate", "0", "--fast", "--noslow", "--kind=b", "--last=3")
    assert flags == Flags(last=3, size=2, rate=0.0, fast=True, slow=False, kind="b")
    assert isinstance(flags.rate, float)
    given = {"size": 2, "rate": 0.0, "fast": True, "slow": False, "kind": "b", "last": 3}
    assert given_flags(flags) == given
    assert given_flags(parse("--size=1", "--nofast")) == {}


def test_a_value_may_follow_a_flag_in_every_command():
    """Catches a value that is taken for a folder: export and import only took --flag=VALUE."""
    words = ["program", "run", "--format", "program", "folder", "--nocheck", "last"]
    line = command_line.parse(ExportFlags, words, ("A", "B", "[C]"))
    assert line.flags == ExportFlags(format="program", check=False)
    assert line.words == ["run", "folder", "last"]
    for kind, name in ((PrepareFlags, "part"), (AblateFlags, "seeds")):
        words = ["program", f"--{name}", "1", "--workdir", "x", "--config.training.seed", "7"]
        line = command_line.parse(kind, words)
        assert given_flags(line.flags) == {name: "1", "workdir": "x"}
        assert line.config.training.seed == 7


def test_help_says_what_a_flag_takes_and_goes_with():
    """Catches a rule that is kept and not documented."""
    text = help_text("Usage.\n", command_line.parse(Flags, ["program"]))
    assert text.startswith("Usage.\n\nFlags:\n  --input=FILE: A file.\n  --other=FILE")
    assert "  --size=N: A size.\n      default: 1\n" in text
    assert "      needs --size or --fast\n" in text
    assert "      not with --slow\n" in text
    assert "  --kind: A kind.\n      a or b\n" in text
    assert text.endswith("  --last=N: Comes last.\n      default: -1")
    sampling = "      needs --sample; for runs of translation, language_model"
    assert sampling in help_text("", command_line.parse(EvaluateFlags, ["eval.py"]))


@pytest.mark.parametrize("kind", [EvaluateFlags, TrainFlags])
def test_rules_name_flags_and_tasks_that_exist(kind):
    """Catches a rule that a misspelt name switches off."""
    known = flags_of(kind)
    for declared in known.values():
        assert {*declared.needs, *declared.excludes} <= known.keys() - {declared.name}
        assert set(declared.tasks) <= {*TASKS, OWN_TASK}
        assert declared.help.endswith(".")


def test_flags_of_evaluate_are_those_of_its_parts():
    """Catches a default that differs from that of the part that takes the value."""
    known = flags_of(EvaluateFlags)
    assert known.keys() >= set(SEARCH)
    defaults = translate_file.__kwdefaults__
    names = known.keys() & defaults.keys()
    assert names == set(LINES)
    assert all(known[name].default in (None, defaults[name]) for name in names)
    flags = EvaluateFlags(beam_size=1, alpha=0.0, early_stopping=False, sample=False, nbest=3)
    assert flags.given(*SEARCH) == {"beam_size": 1, "alpha": 0.0, "early_stopping": False}


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("translation", ["--temperature=0.5", "--sample"]),
        ("language_model", ["--temperature=0", "--prompt="]),
        ("classification", ["--jsonl", "--input=-", "--output=x.gz"]),
        ("translation", ["--compare=runs/y@5", FILE, REFERENCE]),
        ("translation", ["--attention=gs://bucket/map.png"]),
    ],
)
def test_flags_that_make_sense_pass(task, arguments):
    """Catches a rule that is too strict."""
    command_line.parse(EvaluateFlags, ["eval.py", *arguments]).flags.check(task)


def test_a_corpus_that_has_moved_is_named(make_run, monkeypatch):
    """Catches a run that can no longer be scored, as its text is somewhere else now."""
    read = []
    monkeypatch.setattr(
        evaluation_set, "load_evaluation_pairs", lambda data, *_: read.append(data.corpus) or 1 / 0
    )
    with pytest.raises(ZeroDivisionError):
        call("eval.py", f"--workdir={make_run()}", "--corpus=moved")
    assert read == ["moved"]


def test_runs_whose_names_have_commas_and_at_signs(tmp_path):
    """Catches --ensemble and --compare that split at every comma, unlike --reference."""
    for name in ("a", "b,c", "d@e"):
        (tmp_path / name).mkdir()
    a, b, d = (str(tmp_path / name) for name in ("a", "b,c", "d@e"))
    runs = [f"{a}@last", f"{b}@200", d, "missing", "x"]
    assert split_paths(f"{a}@last,{b}@200, {d},missing,x") == runs
