"""Scores checkpoints of a translation run on a test set."""

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import jax

from transformer.cli.evaluate_flags import EvaluateFlags
from transformer.cli.flags import split_files, split_runs
from transformer.config import Config, DataConfig
from transformer.console import print_results, say
from transformer.data.corpora import training_text
from transformer.data.corpora.held_out import read_held_out
from transformer.data.files import text as text_files
from transformer.evaluation.checkpoint_series import (
    checkpoint_row,
    choose_checkpoints,
    each_checkpoint,
    table_lines,
)
from transformer.evaluation.evaluation import Evaluation
from transformer.evaluation.metrics import Reference
from transformer.evaluation.published_sets import read_published
from transformer.evaluation.results import (
    checksum,
    path_name,
    results_name,
    scored_otherwise,
)
from transformer.evaluation.translation import evaluate_translator
from transformer.inference.translator import Translator
from transformer.parallel import hosts
from transformer.workdir import WorkDir

READ_ONLY = (None, errno.EACCES, errno.EPERM, errno.EROFS)  # None: of an object store


class TestSet(NamedTuple):
    """Sentences with references. name: its folder in results/; corpus: its name in reports."""

    name: str
    corpus: str
    pairs: Sequence[tuple[str, Reference]]


def score_checkpoints(flags: EvaluateFlags, config: Config) -> None:
    """Scores a test set with each of the checkpoints; the last is reported and saved in full."""
    names = choose_checkpoints(flags.workdir, flags.checkpoints)
    test_set = read_test_set(flags, config.data)
    hosts.check_same("the test set", repr(test_set.pairs).encode)
    scored = list(_score_each(flags, test_set, names))
    result = scored[-1]
    say(f"{test_set.corpus}, checkpoint {result.checkpoint}:")
    print_results([*result.lines(), *result.detail_lines()])
    workdir = WorkDir(flags.workdir, writes=jax.process_index() == 0)
    rows = list(map(checkpoint_row, scored))
    try:
        saved = result.save(workdir, results_folder(flags, test_set), checkpoints=rows)
        say(f"scores: {saved}   report: {saved.with_name('report.html')}")
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        say(f"warning: the scores were not saved: {' '.join(str(error).split())}")


def results_folder(flags: EvaluateFlags, test_set: TestSet) -> str:
    """Returns the name in results/: the test set's, and what is not as the run scores itself."""
    how = scored_otherwise(
        flags.workdir,
        flags.checkpoints,
        corpus=flags.corpus,
        dtype=flags.dtype,
        search=flags.search_options,
    )
    if flags.ensemble:
        how["ensemble"] = "_".join(map(path_name, split_runs(flags.ensemble)))
    return results_name(test_set.name, how)


def open_translator(flags: EvaluateFlags) -> Translator:
    """Returns the translator of --workdir, or that of an ensemble."""
    if not flags.ensemble:
        return Translator.from_checkpoint(
            flags.workdir, flags.checkpoints, **flags.compute_settings
        )
    runs = [flags.workdir, *split_runs(flags.ensemble)]
    return Translator.from_checkpoints(runs, flags.checkpoints, **flags.compute_settings)


def _score_each(
    flags: EvaluateFlags, test_set: TestSet, names: Sequence[str]
) -> Iterator[Evaluation]:
    """Yields what each checkpoint reaches; if there are several, also prints a table row by row."""
    rows, metrics = [], flags.metrics.split(",") if flags.metrics else []
    several = each_checkpoint(flags.workdir, names, **flags.compute_settings)
    for translator in [open_translator(flags)] if flags.ensemble else several:
        result = evaluate_translator(
            translator, test_set.pairs, test_set.corpus, metrics=metrics, **flags.search_options
        )
        rows.append(checkpoint_row(result))
        if len(names) > 1:
            print_results(table_lines(rows)[0 if len(rows) == 1 else -1 :])
        yield result


def read_test_set(flags: EvaluateFlags, data: DataConfig) -> TestSet:
    """Reads the test set of the configuration, --test_set, or --input with --reference."""
    if flags.test_set:
        direction = f"{data.source_language}-{data.target_language}"
        return TestSet(flags.test_set, flags.test_set, read_published(flags.test_set, direction))
    if not flags.input:
        split = flags.split or data.test_split
        kept = None if flags.corpus else read_held_out(WorkDir(flags.workdir).path)
        pairs = training_text.load_evaluation_pairs(data, split, kept)
        return TestSet(split, f"{data.corpus} {split}", pairs)
    sources, *references = map(read_texts, [flags.input, *split_files(flags.reference)])
    for texts in references:
        if len(sources) != len(texts) or not sources:
            raise ValueError(
                f"--input has {len(sources)} lines and --reference {len(texts)}; they must pair, "
                f"and there must be at least one."
            )
    pairs = list(zip(sources, zip(*references, strict=True), strict=True))
    name = "stdin" if flags.input == "-" else Path(flags.input).stem
    return TestSet(f"{name}_{checksum(pairs)}", flags.input, pairs)


def read_texts(path: str) -> list[str]:
    """Reads the lines of a file or of standard input; says which of them had to be repaired."""
    text = text_files.read_text(path)
    for repair, count in text.repairs.items():
        say(f"warning: {count:,} {repair}")
    return text.lines
