"""The evaluate command for a run of another task than translation.

Scores a split, answers lines of text, continues a prompt, or draws attention.
"""

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

from transformer.cli import compile_cache
from transformer.cli.draw_attention import draw_attention
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.flags import given_flags
from transformer.config import Config
from transformer.console import ask_for_lines, say, tell
from transformer.data import text_files
from transformer.inference.language_model import LanguageModel
from transformer.parallel import devices
from transformer.registry import TASKS
from transformer.signals import DONE
from transformer.storage import open_atomically
from transformer.workdir import WorkDir

ANSWER_OPTIONS = ("temperature", "top_k", "top_p", "seed", "num_pieces", "jsonl")


def evaluate_task(flags: EvaluateFlags, config: Config) -> int:
    """Does what the checked flags ask for; returns the exit code. config: the run's."""
    compile_cache.turn_on(say)
    devices.check_accelerator(say)
    given = given_flags(flags)
    options = {name: given[name] for name in ANSWER_OPTIONS if name in given}
    if flags.attention:
        draw_attention(flags, config)
    elif flags.prompt is not None:
        continue_prompt(flags, flags.prompt, options)
    elif flags.input:
        if flags.input == "-":
            ask_for_lines("a text")
        answers = TASKS[config.task].predict_lines(
            flags.workdir,
            flags.checkpoints,
            iter(text_files.open_lines(flags.input)),
            options,
            **flags.compute_settings,
        )
        write_lines(answers, flags.output)
    else:
        score_split(flags, config)
    return DONE


def score_split(flags: EvaluateFlags, config: Config) -> None:
    """Scores --split, or the configuration's test split; prints and saves the scores."""
    split = flags.split or config.data.test_split
    scores = TASKS[config.task].score_split(
        flags.workdir,
        flags.checkpoints,
        split,
        corpus=config.data.corpus,
        **flags.compute_settings,
    )
    tell([f"{scores.corpus}, checkpoint {scores.checkpoint}:"])
    tell([*scores.lines(), *scores.detail_lines()])
    say(f"scores: {scores.save(WorkDir(flags.workdir), split)}")


def write_lines(answers: Iterable[str], path: str) -> None:
    """Writes one line per answer to a file, as a whole, or to standard output as they come."""
    lines = (text.replace("\n", " ") for text in answers)
    if not path:
        for line in lines:
            _put(f"{line}\n")
        return
    opener = text_files.OPENERS.get(Path(path).suffix)
    with (
        open_atomically(path) as file,
        opener(file, "wb") if opener else nullcontext(file) as packed,
    ):
        packed.writelines(f"{line}\n".encode(errors="replace") for line in lines)


def continue_prompt(flags: EvaluateFlags, prompt: str, options: dict[str, Any]) -> None:
    """Writes a prompt and its continuation to standard output as it comes."""
    model = LanguageModel.from_checkpoint(
        flags.workdir, flags.checkpoints, **flags.compute_settings
    )
    for text in chain([prompt], model.stream(prompt, **options)):
        _put(text)
    _put("\n")


def _put(text: str) -> None:
    """Writes text to standard output as UTF-8, whatever the locale; raises ValueError."""
    if sys.stdout is None:
        raise ValueError("Standard output is closed; name a file with --output.")
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
