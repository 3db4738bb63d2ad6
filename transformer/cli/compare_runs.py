"""Scores several runs of translation on one test set, one after the other, and compares them."""

import shutil
import sys

import jax

from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.score_translation import TestSet, read_test_set, results_folder
from transformer.config import Config
from transformer.console import is_terminal, phase, print_results, say
from transformer.evaluation.checkpoint_series import check_checkpoint, saved_steps
from transformer.evaluation.compared_run import ComparedRun, compared_run
from transformer.evaluation.comparison import check_comparable, compare
from transformer.evaluation.comparison_report import save_comparison
from transformer.evaluation.comparison_tables import comparison_lines
from transformer.evaluation.results import bounded_name
from transformer.evaluation.translation import evaluate_translator
from transformer.inference.translator import Translator
from transformer.parallel import hosts
from transformer.workdir import WorkDir, split_checkpoint


def compare_runs(flags: EvaluateFlags, config: Config) -> None:
    """Compares the run of --workdir with each run of --compare; prints and saves the comparison."""
    runs = map(split_checkpoint, flags.compared)
    compared = [(path, checkpoint or "default") for path, checkpoint in runs]
    named = [(flags.workdir, flags.checkpoints), *compared]
    for path, checkpoint in named:
        workdir = WorkDir(path)
        check_comparable(config, workdir.load_config(), path)
        check_checkpoint(workdir, checkpoint, saved_steps(workdir))
    test_set = read_test_set(flags, config.data)
    hosts.check_same("the test set", repr(test_set.pairs).encode)
    runs = [_score_run(flags, test_set, path, checkpoint) for path, checkpoint in named]
    with phase(f"testing the differences between {len(runs)} runs"):
        comparison = compare(runs)
    print_results([f"{test_set.corpus}:", *comparison_lines(comparison, terminal_width())])
    folder = results_folder(flags, test_set)
    try:
        saved = save_comparison(
            WorkDir(flags.workdir, writes=jax.process_index() == 0),
            bounded_name("_".join(["compare", folder, "with", *comparison.names[1:]])),
            comparison,
        )
        say(f"comparison: {saved}   report: {saved.with_name('report.html')}")
    except OSError as error:  # somebody else's run, that can only be read
        say(f"warning: the comparison was not saved: {' '.join(str(error).split())}")


def _score_run(flags: EvaluateFlags, test_set: TestSet, path: str, checkpoint: str) -> ComparedRun:
    """Restores and scores a run, whose model nothing refers to when this returns."""
    with phase(f"scoring {path}"):
        translator = Translator.from_checkpoint(path, checkpoint, **flags.compute_settings)
        result = evaluate_translator(
            translator, test_set.pairs, test_set.corpus, num_maps=0, **flags.search_options
        )
    say(f"{path}, checkpoint {result.checkpoint}: {result.primary.name} {result.primary.figures}")
    return compared_run(path, result)


def terminal_width() -> int | None:
    """Returns the width of the terminal that standard output is; None if it is none."""
    return shutil.get_terminal_size().columns if is_terminal(sys.stdout) else None
