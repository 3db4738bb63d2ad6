"""The evaluate command when it is misused: one line, exit code 2, and nothing is computed."""

import pytest

from tests.helpers.scripts import ROOT, run
from transformer.cli.evaluate import main
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.score_translation import read_test_set
from transformer.config import DataConfig

FILE = f"--input={ROOT / 'pyproject.toml'}"
REFERENCE = f"--reference={ROOT / 'pyproject.toml'}"


def assert_refused(ended, said):
    assert (ended.code, ended.out) == (2, ""), ended
    assert said in ended.err
    assert ended.err.startswith("error: ") and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--nbset=3"], "did you mean --nbest?"),
        (["--config=configs/digits.py"], "there is no --config"),
        (["--input=nowhere.txt"], "nowhere.txt does not exist"),
        ([FILE, "--prefixes=nowhere.txt"], "nowhere.txt does not exist"),
        (["--input=-", "--score=-"], "only one of --input, --score can be -"),
        (["--reference=x"], "--reference needs --input=FILE"),
        (["--output=x"], "--output needs --input=FILE"),
        (
            [FILE, REFERENCE, "--output=x"],
            "--output cannot be used with --reference: scores of a test",
        ),
        (["--split=val", FILE], "--split cannot be used with --input"),
        (
            ["--compare=runs/y", FILE],
            "--compare cannot be used with --input: runs are compared on a test",
        ),
        (["--compare=configs"], "no config.json"),
        (["--compare_checkpoint=last"], "--compare_checkpoint needs --compare=FOLDERS"),
        (
            ["--compare=a,b", "--compare_checkpoint=1,2,3"],
            "one for each of the 2 runs of --compare",
        ),
        (["--compare=a", "--checkpoints=all"], "--checkpoints=all names several checkpoints"),
        (["--scores"], "--scores needs --input=FILE"),
        (
            [FILE, "--scores", "--jsonl"],
            "--scores cannot be used with --jsonl: the scores are shown",
        ),
        ([FILE, REFERENCE, "--nbest=2"], "--nbest cannot be used with --reference"),
        ([FILE, "--attention=x.png", "--jsonl"], "--jsonl cannot be used with --attention"),
        ([FILE, "--nbest=-1"], "--nbest must be at least 0"),
        ([FILE, "--chunk_lines=0"], "--chunk_lines must be at least 1"),
        (
            [FILE, "--score=Makefile", "--nbest=2"],
            "--score cannot be used with --nbest: nothing is",
        ),
        (
            [FILE, "--score=Makefile", "--alpha=1"],
            "--score cannot be used with --alpha: nothing is",
        ),
        ([FILE, f"--score={ROOT / 'train.py'}"], "they must pair"),
        ([FILE, "--output=nowhere/x"], "--output must be a file in a folder that exists"),
        (["--top_k=3"], "--top_k needs --sample"),
        (["--seed=0"], "--seed needs --sample"),
        (["--prompt=x"], "--prompt has no effect on a run of translation: leave it out"),
        (["--checkpoints=last,best", FILE], "--checkpoints=last,best names several"),
        (["--dtype=float16"], "--dtype must be one of float32, bfloat16"),
    ],
)
def test_flags_that_make_no_sense_are_refused(call, make_run, arguments, said):
    """Catches a flag without effect that goes unnoticed, and a sentence that is a stack trace."""
    assert_refused(call(main, f"--workdir={make_run()}", *arguments), said)


@pytest.mark.parametrize(
    ("task", "arguments", "said"),
    [
        ("classification", ["--beam_size=4"], "--beam_size has no effect on a run of classifi"),
        ("classification", ["--prompt=a"], "--prompt has no effect on a run of classification"),
        ("classification", ["--jsonl"], "--jsonl needs --input"),
        ("classification", ["--input=missing"], "missing does not exist"),
        ("classification", ["--checkpoints=all"], "--checkpoints=all names several"),
        ("language_model", ["--num_pieces=4"], "--num_pieces needs --prompt=TEXT or --input=FILE"),
        ("language_model", ["--prompt=a", FILE], "--prompt cannot be used with --input"),
        ("images", [FILE], "--input has no effect on a run of images"),
    ],
)
def test_flags_of_other_tasks_are_refused(call, make_run, task, arguments, said):
    """Catches flags that a run of this task passes over."""
    assert_refused(call(main, f"--workdir={make_run(task)}", *arguments), said)


@pytest.mark.parametrize(
    ("task", "arguments"),
    [
        ("translation", ["--temperature=0.5", "--sample"]),
        ("language_model", ["--temperature=0", "--prompt="]),
        ("classification", ["--jsonl", "--input=-", "--output=x.gz"]),
        ("translation", ["--compare=runs/y", FILE, REFERENCE, "--compare_checkpoint=5"]),
    ],
)
def test_flags_that_make_sense_pass(task, arguments):
    """Catches a rule that is too strict."""
    from transformer.cli.command_line import parse_flags

    parse_flags(EvaluateFlags, ["eval.py", *arguments]).check(task)


def test_what_is_no_work_directory_is_named(call):
    """Catches a stack trace for the most common mistake of all."""
    assert_refused(call(main, "--workdir=configs"), "no config.json")


def test_unequal_files_are_refused_before_anything_is_scored(tmp_path):
    """Catches references that are scored against the sentences of other lines."""
    (tmp_path / "a").write_text("0\n1\n")
    (tmp_path / "b").write_text("a\n")
    flags = EvaluateFlags(input=str(tmp_path / "a"), reference=str(tmp_path / "b"))
    with pytest.raises(ValueError, match="--input has 2 lines and --reference 1; they must pair"):
        read_test_set(flags, DataConfig())


@pytest.mark.slow
def test_the_script_ends_with_code_2_and_one_line():
    """Catches an exit code or an output that only a shell sees."""
    code, out, err = run("eval.py", "--workdir=configs")
    assert (code, out) == (2, b"")
    assert err.startswith("error: ") and err.count("\n") == 1
