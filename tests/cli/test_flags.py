"""Flags that are declared once: what is parsed, refused and printed follows from that."""

from dataclasses import dataclass

from tests.cli.mistakes import FILE, REFERENCE
from transformer.cli import command_line
from transformer.cli.command_line import help_text
from transformer.cli.commands.evaluate import LINES, SEARCH, EvaluateFlags
from transformer.cli.commands.export import ExportFlags
from transformer.cli.commands.train import TrainFlags
from transformer.cli.flags import CommonFlags, flag, flags_of, split_paths
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
    """Catches a flag that is parsed as another type, False that passes for "not given", and a value
    behind a blank that is taken for a folder."""
    assert parse() == Flags()
    flags = parse("--size=2", "--rate", "0", "--fast", "--noslow", "--kind=b", "--last=3")
    assert flags == Flags(last=3, size=2, rate=0.0, fast=True, slow=False, kind="b")
    assert isinstance(flags.rate, float)
    given = {"size": 2, "rate": 0.0, "fast": True, "slow": False, "kind": "b", "last": 3}
    assert flags.given() == given
    assert parse("--size=1", "--nofast").given() == {}
    words = ["program", "run", "--format", "program", "folder", "--nocheck", "last"]
    line = command_line.parse(ExportFlags, words, ("A", "B", "[C]"))
    assert line.flags == ExportFlags(format="program", check=False)
    assert line.words == ["run", "folder", "last"]


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


def test_rules_name_flags_and_tasks_that_exist():
    """Catches a rule that a misspelt name switches off."""
    for known in map(flags_of, (EvaluateFlags, TrainFlags)):
        for name, declared in known.items():
            assert {*declared.needs, *declared.excludes} <= known.keys() - {name}
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


def test_flags_that_make_sense_pass():
    """Catches a rule that is too strict."""
    for task, *arguments in (
        ("translation", "--temperature=0.5", "--sample"),
        ("language_model", "--temperature=0", "--prompt="),
        ("classification", "--jsonl", "--input=-", "--output=x.gz"),
        ("translation", "--compare=runs/y@5", FILE, REFERENCE),
        ("translation", "--attention=gs://bucket/map.png"),
    ):
        command_line.parse(EvaluateFlags, ["eval.py", *arguments]).flags.validate(task)


def test_paths_whose_names_have_commas_and_at_signs(tmp_path):
    """Catches --ensemble, --compare or --reference that split at every comma."""
    for name in ("a", "b,c", "d@e"):
        (tmp_path / name).mkdir()
    a, b, d = (str(tmp_path / name) for name in ("a", "b,c", "d@e"))
    runs = [f"{a}@last", f"{b}@200", d, "missing", "x"]
    assert split_paths(f"{a}@last,{b}@200, {d},missing,x") == runs
