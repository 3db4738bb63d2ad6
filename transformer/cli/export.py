"""Exports a checkpoint in bfloat16: python -m transformer.cli.export WORKDIR FOLDER [CHECKPOINT]

It takes a sixth of a training checkpoint: half the bytes of the parameters, and no optimizer.
FOLDER is again a work directory, for eval.py, for `Translator.from_checkpoint` and to start other
runs from (--config.training.init_from=FOLDER). CHECKPOINT is as eval.py's --checkpoints takes it.
A run with an attention function or a task of one's own needs --register=FILE, as for eval.py.
"""

from collections.abc import Sequence
from typing import NoReturn

from transformer.cli.command_line import run_registering_files
from transformer.cli.help_text import answers_information
from transformer.cli.process import run_guarded, run_process
from transformer.console import say
from transformer.signals import DONE


def main(argv: Sequence[str]) -> int:
    """Exports as a command line asks; returns the exit code, or raises SystemExit with it."""
    return run_guarded(lambda: _export(argv))


def _export(argv: Sequence[str]) -> int:
    usage = (__doc__ or "").strip()
    if answers_information(argv, lambda: usage):
        return DONE
    words = run_registering_files(argv)[1:]
    if len(words) not in (2, 3) or any(word.startswith("-") for word in words):
        raise ValueError(f"expected {usage.splitlines()[0].split(': ')[1]}")
    from transformer.checkpoint.export import export  # late: it imports jax

    say(export(*words))
    return DONE


def run() -> NoReturn:
    """Runs the command as this process."""
    run_process(main)


if __name__ == "__main__":
    run()
