"""Evaluating runs: what `transformer.evaluate` and `transformer.compare`, and eval.py, do."""

import errno
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from etils.epath import PathLike

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.checkpoint.restore import restore
from transformer.config import Config
from transformer.console import phase, say, showing_phases, silence
from transformer.evaluation.classification import evaluate_classifier
from transformer.evaluation.comparison import (
    Comparison,
    check_comparable,
    compare_runs,
    compared_run,
)
from transformer.evaluation.evaluation_set import (
    EvaluationSet,
    bounded_name,
    read_examples,
    results_name,
)
from transformer.evaluation.metrics import Reference
from transformer.evaluation.scores import TaskScores
from transformer.evaluation.translation import evaluate_translator
from transformer.exit_codes import ResumableError
from transformer.files.reading import reason_of
from transformer.inference.encoders import Classifier
from transformer.inference.translator import Translator
from transformer.parallel import hosts
from transformer.registry import TASKS, task_kind
from transformer.search.options import SearchOptions
from transformer.workdir import WorkDir, split_checkpoint

READ_ONLY = (None, errno.EACCES, errno.EPERM, errno.EROFS)  # None: of an object store


def evaluate(
    workdir: PathLike,
    checkpoint: str | int = "default",
    *,
    split: str | None = None,
    sources: Sequence[str] | np.ndarray | None = None,
    references: Sequence[Reference] | None = None,
    files: Sequence[PathLike] = (),
    test_set: str = "",
    corpus: str | None = None,
    ensemble: Sequence[PathLike] = (),
    dtype: str | None = None,
    batch_size: int | None = None,
    save: bool = False,
    verbose: bool = True,
    on_scores: Callable[[TaskScores], object] = lambda scores: None,
    **search: Any,
) -> TaskScores:
    """Scores a checkpoint of a run, of any task, by the task's own metrics.

    >>> result = transformer.evaluate("runs/mine", beam_size=8)
    >>> result.scores["bleu"].value

    Args:
      workdir, dtype, batch_size: as `transformer.restore` takes them.
      checkpoint: as well; of a translation run also several with commas between, or "all", of which
        the scores of the last are returned.
      split: the part of the corpus to score; None: the configuration's test split.
      sources, references: examples to score instead, with what each should become: translations, or
        the classes of a classifier's texts or images; several translations are a tuple.
      files: a file of sources and one or several of references to score instead.
      test_set: one that sacrebleu knows, as "wmt14/full", to score instead.
      corpus: where the run's text is now, if it has moved.
      ensemble: further runs, whose probabilities are averaged with this one's.
      save: whether to write the scores to results/ of the work directory, as eval.py does.
      verbose: whether to show on standard error what takes long.
      on_scores: is called with the scores of each checkpoint.
      search: options of the search of a translation run, as `Translator.translate` takes them, and
        `metrics`, a list of further ones, as eval.py takes them.

    Raises ValueError if there is no such run, checkpoint or split, or for options that do not fit.
    """
    with showing_phases() if verbose else silence():
        run, checkpoint = WorkDir(workdir, writes=jax.process_index() == 0), str(checkpoint)
        what = {"split": split, "corpus": corpus, "files": files, "test_set": test_set}
        config, examples = _prepare(run, search, sources=sources, references=references, **what)
        how = {"corpus": corpus, "dtype": dtype, "ensemble": ensemble}
        scored = []
        for scores in _score(run, checkpoint, examples, search, batch_size=batch_size, **how):
            on_scores(scores)
            scored.append(scores)
        if save:
            name = results_name(config, examples.name, checkpoint, search=search, **how)
            _save(scored[-1].save, run, name, scored)
    return scored[-1]


def compare(
    workdir: PathLike,
    others: Sequence[PathLike],
    checkpoint: str | int = "default",
    *,
    split: str | None = None,
    files: Sequence[PathLike] = (),
    test_set: str = "",
    corpus: str | None = None,
    dtype: str | None = None,
    batch_size: int | None = None,
    save: bool = False,
    verbose: bool = True,
    **search: Any,
) -> Comparison:
    """Compares runs of translation with the first on a test set: paired tests, settings.

    >>> transformer.compare("runs/a", ["runs/b", "runs/c@last"]).lines()

    others: work directories, perhaps with @CHECKPOINT. The other arguments are those of `evaluate`.
    Raises ValueError, as that does, or for runs that do not translate the same text.
    """
    with showing_phases() if verbose else silence():
        run, checkpoint = WorkDir(workdir, writes=jax.process_index() == 0), str(checkpoint)
        runs = [(run, checkpoint)]
        runs += [(WorkDir(path), name or "default") for path, name in map(split_checkpoint, others)]
        for other, name in runs:
            check_comparable(run.load_config(), other.load_config(), str(other.path))
            open_for_reading(other, other.load_config()).check(name)
        what = {"split": split, "corpus": corpus, "files": files, "test_set": test_set}
        config, examples = _prepare(run, search, **what)
        options, compared = search | {"num_maps": 0}, []
        for other, name in runs:  # one model in memory at a time
            with phase(f"scoring {other.path}"):
                compute = {"dtype": dtype, "batch_size": batch_size}
                (result,) = _score(other, name, examples, options, **compute)
            best = result.primary
            say(f"{other.path}, checkpoint {result.checkpoint}: {best.name} {best.figures}")
            compared.append(compared_run(other, result.to_json(), result.segments))
        with phase(f"testing the differences between {len(runs)} runs"):
            comparison = compare_runs(compared)
        if save:
            how = {"corpus": corpus, "dtype": dtype, "search": search}
            name = results_name(config, examples.name, checkpoint, **how)
            folder = bounded_name("_".join(["compare", name, "with", *map(str, others)]))
            _save(comparison.save, run, folder)
    return comparison


def _prepare(run: WorkDir, search: Mapping[str, Any], **what: Any) -> tuple[Config, EvaluationSet]:
    """Returns the configuration of the run and what it is scored on, the same on all hosts.

    what: as of `read_examples`. Raises ValueError for options of the search that do not fit.
    """
    config = run.load_config()
    if task_kind(config.task) == "translation":
        options = {name: value for name, value in search.items() if name != "metrics"}
        SearchOptions.from_config(config.decoding, **options)
    elif search:
        raise ValueError(f"{next(iter(search))} has no effect on a run of {config.task}.")
    examples = read_examples(run, config, **what)
    hosts.check_same("the test set", repr(examples[2:]).encode)
    return config, examples


def _score(
    run: WorkDir,
    checkpoint: str,
    examples: EvaluationSet,
    search: Mapping[str, Any],
    *,
    ensemble: Sequence[PathLike] = (),
    corpus: str | None = None,
    **compute: Any,
) -> Iterator[Any]:
    """Yields the scores of each checkpoint; compute: dtype and batch_size, as of `restore`."""
    config, test_set = run.load_config(), (*examples[2:], examples.title)
    if task_kind(config.task) == "translation":
        if ensemble:
            translators = [Translator.from_checkpoints([run, *ensemble], checkpoint, **compute)]
        else:
            translators = each_checkpoint(run, checkpoint, **compute)
        for translator in translators:
            yield evaluate_translator(translator, *test_set, **search)
    elif len(examples.sources):
        yield evaluate_classifier(Classifier.from_checkpoint(run, checkpoint, **compute), *test_set)
    else:
        compute["corpus"] = corpus or config.data.corpus
        yield TASKS[config.task].score_split(run, checkpoint, examples.name, **compute)


def each_checkpoint(path: PathLike, text: str, **settings: Any) -> Iterator[Translator]:
    """Yields one and the same `Translator` with the parameters of each checkpoint in turn.

    The programs compiled for the first checkpoint serve all. text: names with commas between; "all"
    stands for every saved step. settings: dtype and batch_size, as `restore` takes them. Of several
    checkpoints, one that cannot be read is left out with a warning. Raises ValueError if none can
    be read, or for what is no name of a checkpoint.
    """
    run, names = WorkDir(path), []
    checkpoints = open_for_reading(run, run.load_config())
    for name in map(str.strip, text.split(",")):
        if name == "all":
            names += map(str, checkpoints.steps())
        else:
            checkpoints.check(name)
            names.append(name)
    translator, names = None, list(dict.fromkeys(names))
    for name in names:
        try:
            restored = restore(path, name, tasks=Translator.tasks, **settings)
        except (ValueError, ResumableError) as error:
            if len(names) == 1:
                raise
            warnings.warn(f"checkpoint {name} is left out: {error}", stacklevel=2)
            continue
        translator = translator or Translator(restored)
        translator.use(restored)
        yield translator
    if translator is None:
        raise ValueError(f"None of the checkpoints {', '.join(names)} can be read.")


def _save(save: Callable[..., epath.Path], *arguments: Any) -> None:
    """Saves results and says where; a run of somebody else may be read only."""
    try:
        file = save(*arguments)
        report = file.with_name("report.html")
        say(f"scores: {file}" + (f"   report: {report}" if report.exists() else ""))
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        say(f"warning: the scores were not saved: {reason_of(error)}")
