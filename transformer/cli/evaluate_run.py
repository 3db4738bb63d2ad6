"""What the evaluate command does with a run: it calls the public functions and prints."""

import sys
from itertools import chain
from typing import Any

import transformer
from transformer.cli.flags import split_runs
from transformer.config import Config
from transformer.console import (
    escaped,
    is_terminal,
    print_results,
    say,
)
from transformer.evaluation.evaluation_set import read_lines
from transformer.evaluation.scores import TaskScores, checkpoint_table
from transformer.inference.file_job import check_files
from transformer.inference.translator import Translator
from transformer.parallel import hosts
from transformer.registry import TASKS
from transformer.workdir import WorkDir

FILE_OPTIONS = ("nbest", "scores", "jsonl", "alignments", "score", "prefixes", "chunk_lines")
ANSWER_OPTIONS = ("temperature", "top_k", "top_p", "seed", "num_pieces", "jsonl")


def score(run: WorkDir, checkpoints: str, *, several: bool, **options: Any) -> None:
    """Prints and saves the scores of a checkpoint, or of several: a table, and the last in full."""
    scored: list[TaskScores] = []

    def show(scores: TaskScores) -> None:  # before they are saved, which may fail
        scored.append(scores)
        say(f"{scores.corpus}, checkpoint {scores.checkpoint}: {scores.primary.figures}")
        if not several:
            print_results([*scores.lines(), *scores.details])

    last = transformer.evaluate(run, checkpoints, save=True, on_scores=show, **options)
    if several:
        print_results([*checkpoint_table(scored), *last.lines(), *last.details])


def compare(run: WorkDir, others: list[str], checkpoint: str, **options: Any) -> None:
    """Prints and saves the comparison of a run with others."""
    comparison = transformer.compare(run, others, checkpoint, save=True, **options)
    print_results([f"{comparison.first.corpus}:", *comparison.lines()])


def draw(run: WorkDir, picture: str, input: str, checkpoint: str, **options: Any) -> None:
    """Draws the attention of one example, the first text of `input` if there is one."""
    texts = read_lines(input) if input else None
    drawn = transformer.draw_attention(run, picture, texts, checkpoint, **options)
    translation = "" if drawn.translation == drawn.source else f"\n> {drawn.translation}"
    say(f"{drawn.source}{translation}\nattention: {picture}")


def translate(flags: Any, run: WorkDir) -> None:
    """Translates the lines of --input, or scores translations of them."""
    companion = flags.score or flags.prefixes
    check_files(flags.output, flags.input, *([companion] if companion else []))
    if flags.ensemble:
        runs = [run, *split_runs(flags.ensemble)]
        translator = Translator.from_checkpoints(runs, flags.checkpoints, **flags.compute)
    else:
        translator = Translator.from_checkpoint(run, flags.checkpoints, **flags.compute)
    options = {name: getattr(flags, name) for name in FILE_OPTIONS} | flags.search_options
    transformer.translate_file(translator, flags.input, flags.output, **options)


def answer(flags: Any, run: WorkDir, config: Config) -> None:
    """Answers each line of --input by a run of another task."""
    check_files(flags.output, flags.input)
    predictor = TASKS[config.task].predictor
    if predictor is None:
        raise ValueError("A run of this task takes no lines of text: leave out --input.")
    model = predictor.from_checkpoint(run, flags.checkpoints, **flags.compute)
    options = flags.given("chunk_lines", *ANSWER_OPTIONS)
    transformer.answer_file(model, flags.input, flags.output, **options)


def continue_prompt(flags: Any, run: WorkDir, *, is_first: bool) -> None:
    """Writes a prompt and its continuation to standard output as it comes, on the first host."""
    if is_first:
        model = transformer.LanguageModel.from_checkpoint(run, flags.checkpoints, **flags.compute)
        options = flags.given(*ANSWER_OPTIONS)
        for text in chain([flags.prompt], model.stream(flags.prompt, **options), ["\n"]):
            _put(text)
    hosts.wait_for_all("the texts")  # a host that leaves ends the others


def _put(text: str) -> None:
    """Writes text to standard output as UTF-8, whatever the locale; raises ValueError."""
    if sys.stdout is None:
        raise ValueError("Standard output is closed; name a file with --output.")
    text = escaped(text) if is_terminal(sys.stdout) else text
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.buffer.flush()
