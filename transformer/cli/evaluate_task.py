"""eval.py for a run that is not of translation: scores a split, answers lines, goes on with a text.

`given` are the flags of the command line, {name: value}.
"""

import contextlib
import sys
from itertools import chain

from transformer.data import text_files
from transformer.data.splits import folder_name
from transformer.inference.language_model import LanguageModel
from transformer.parallel import devices
from transformer.tasks import load_task_class
from transformer.workdir import WorkDir

SETTINGS = {"dtype", "batch_size"}
SAMPLING = {"temperature", "top_k", "top_p", "seed", "num_pieces"}
FLAGS = {"workdir", "checkpoints", *SETTINGS}
FLAGS_OF = {  # besides those
    "classification": {"split", "input", "output", "jsonl"},
    "language_model": {"split", "input", "output", "prompt", *SAMPLING},
    "masked_lm": {"split"},
    "images": {"split"},
}


def use(task, path, given, say, tell):
    """Does what the flags ask for with the run at `path`; the exit code.

    say: takes a text for standard error; tell: lines for standard output.
    """
    _check(task, given)
    devices.check_accelerator(say)
    settings = {name: given[name] for name in SETTINGS & given.keys()}
    run = path, given.get("checkpoints", "default")
    options = {name: given[name] for name in (SAMPLING | {"jsonl"}) & given.keys()}
    if "prompt" in given:
        _continue(run, given["prompt"], options, settings)
    elif "input" in given:
        answers = load_task_class(task).predict_lines(
            *run, _texts(given["input"]), options, **settings
        )
        _write(answers, given.get("output"))
    else:
        say(f"scores: {_score(task, run, given.get('split'), tell, settings)}")
    return 0


def _check(task, given):
    """Refuses flags that would have no effect."""
    for name in given.keys() - FLAGS - FLAGS_OF[task]:
        raise ValueError(f"--{name} has no effect on a run of {task}: leave it out.")
    for name, other in (("output", "input"), ("jsonl", "input"), ("num_pieces", "prompt")):
        if name in given and other not in given and "input" not in given:
            raise ValueError(f"--{name} needs --{other}.")
    if given.get("input", "-") != "-" and not text_files.is_readable(given["input"]):
        raise ValueError(f"--input must be a file (or -); {given['input']} is not there.")


def _score(task, run, split, tell, settings):
    """Scores a split, the configuration's test split if there is none given; the file for it."""
    workdir = WorkDir(run[0])
    split = split or workdir.load_config().data.test_split
    outcome = load_task_class(task).score_split(*run, split, **settings)
    tell([f"{outcome.corpus}, checkpoint {outcome.checkpoint}:"])
    tell([*outcome.lines(), *outcome.detail_lines()])
    return outcome.save(workdir, folder_name(split))


def _texts(path):
    return iter(text_files.open_lines(path))


def _write(answers, path):
    """A line each, to a file or as they come to standard output."""
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(open(path, "w", encoding="utf-8")) if path else sys.stdout
        for text in answers:
            print(text.replace("\n", " "), file=file, flush=not path)


def _continue(run, prompt, options, settings):
    """Writes a prompt and what follows to standard output as it comes."""
    model = LanguageModel.from_checkpoint(*run, **settings)
    for text in chain([prompt], model.stream(prompt, **options)):
        print(text, end="", flush=True)
    print()
