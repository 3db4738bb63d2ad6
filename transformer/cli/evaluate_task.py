"""The evaluate command for a run of another task than translation.

Scores a split, answers lines of text, continues a prompt, or draws attention.
"""

import sys
from functools import partial
from itertools import chain
from typing import Any

import jax

from transformer.cli.draw_attention import draw_attention
from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.hosts import connect_hosts
from transformer.cli.write_output import say_cut, write_output
from transformer.config import Config
from transformer.console import escaped, is_terminal, print_results, say
from transformer.evaluation.results import results_name, scored_otherwise
from transformer.exit_codes import DONE
from transformer.inference.file_job import answer_file, check_files
from transformer.inference.language_model import LanguageModel
from transformer.parallel import devices, hosts
from transformer.registry import TASKS
from transformer.workdir import WorkDir

ANSWER_OPTIONS = ("temperature", "top_k", "top_p", "seed", "num_pieces", "jsonl")


def evaluate_task(flags: EvaluateFlags, config: Config) -> int:
    """Does what the checked flags ask for; returns the exit code. config: the run's."""
    options = flags.given(*ANSWER_OPTIONS)
    if flags.input and not flags.attention:
        check_files(flags.output, flags.input)
    is_first = connect_hosts(flags)
    devices.check_accelerator(say)
    if flags.attention:
        draw_attention(flags, config)
    elif flags.prompt is not None:
        if is_first:
            continue_prompt(flags, flags.prompt, options)
        hosts.wait_for_all("the texts")  # a host that leaves ends the others
    elif flags.input:
        answer_lines(flags, config, options)
    else:
        score_split(flags, config)
    return DONE


def answer_lines(flags: EvaluateFlags, config: Config, options: dict[str, Any]) -> None:
    """Answers each line of --input."""
    task = TASKS[config.task]
    answerer = task.load_answerer(
        flags.workdir, flags.checkpoints, options, **flags.compute_settings
    )
    files = flags.input, flags.output
    job = partial(answer_file, answerer, *files, chunk_lines=flags.chunk_lines)
    write_output(job, *files, "a text")
    say_cut(answerer.num_cut(), "text", answerer.cut)


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
    print_results([f"{scores.corpus}, checkpoint {scores.checkpoint}:"])
    print_results([*scores.lines(), *scores.detail_lines()])
    workdir = WorkDir(flags.workdir, writes=jax.process_index() == 0)
    how = scored_otherwise(flags.workdir, flags.checkpoints, corpus=flags.corpus, dtype=flags.dtype)
    say(f"scores: {scores.save(workdir, results_name(split, how))}")


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
    text = escaped(text) if is_terminal(sys.stdout) else text
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
