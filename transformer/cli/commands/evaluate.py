"""Scores a run on its test set, or translates: python eval.py --workdir=runs/NAME

    python eval.py --workdir=runs/NAME                                  the test set of its config
    python eval.py --workdir=runs/NAME --input=a.en --reference=a.de    another test set
    python eval.py --workdir=runs/NAME --corpus=FOLDER                  its text, which has moved
    python eval.py --workdir=runs/NAME --checkpoints=all                each checkpoint, a curve
    python eval.py --workdir=runs/NAME --compare=runs/A,runs/B          are these better or worse?
    python eval.py --workdir=runs/NAME --input=a.en --output=a.de       a file of any size
    echo "…" | python eval.py --workdir=runs/NAME --input=-             standard input
    python eval.py --workdir=runs/NAME --attention=map.png              attention of a translation
    python eval.py --workdir=runs/NAME --prompt="…"                     a language model continues

A run of another task than translation is scored by its own metric, and answers --input line by
line. Answers go to --output or standard output, one line for each line of input and nothing else;
everything else goes to standard error. The same command resumes a file that was not finished.
On several hosts, start it on each. Exit codes: 0 done, 2 wrong input, 75 stopped by SIGTERM,
130 stopped by SIGINT, any other an error.
"""

from collections.abc import Sequence
from functools import partial

from transformer.cli.command_line import CommandLine, run_command
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.process import run_process
from transformer.console import phase
from transformer.data.corpora.corpora import Tags
from transformer.registry import task_kind
from transformer.workdir import WorkDir, split_checkpoint


def main(argv: Sequence[str]) -> int:
    """Evaluates what a command line asks for; returns the exit code, or raises SystemExit with it.

    argv: the words of the command line, the first of them the program.
    """
    return run_command(_evaluate, EvaluateFlags, argv, __doc__)


def _evaluate(line: CommandLine[EvaluateFlags]) -> int:
    flags = line.flags
    config = WorkDir(flags.workdir).load_config()
    task = task_kind(config.task)
    flags.check(task)
    if flags.corpus:
        if task == "translation":
            Tags(config.data).check_known(flags.corpus)
        config.data.corpus = flags.corpus
    for run in flags.compared:
        WorkDir(split_checkpoint(run)[0]).load_config()  # raises now if it is no work directory
    # Imported here, as they import jax: --help and wrong flags need not wait for it.
    if task == "translation":
        with phase("importing JAX", is_logged=False):
            from transformer.cli.evaluate_translation import evaluate_translation

        return evaluate_translation(flags, config)
    with phase("importing JAX", is_logged=False):
        from transformer.cli.evaluate_task import evaluate_task

    return evaluate_task(flags, config)


run = partial(run_process, main)

if __name__ == "__main__":
    run()
