"""Evaluating runs: what `transformer.evaluate` and `transformer.compare`, and eval.py, do."""

import errno
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath
from etils.epath import PathLike

from transformer.checkpoint.checkpoints import open_for_reading
from transformer.checkpoint.restore import restore
from transformer.console import phase, say, showing_phases, silence
from transformer.evaluation import comparison
from transformer.evaluation.classification import evaluate_classifier
from transformer.evaluation.comparison import (
    ComparedRun,
    Comparison,
    check_comparable,
    compared_run,
)
from transformer.evaluation.evaluation_set import (
    EvaluationSet,
    read_examples,
)
from transformer.evaluation.metrics import Reference
from transformer.evaluation.results import bounded_name, path_name, results_name, scored_otherwise
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
        what = {"split": split, "corpus": corpus, "files": files, "test_set": test_set}
        compute = {"dtype": dtype, "batch_size": batch_size}
        scoring = _Scoring(workdir, str(checkpoint), what, compute, search, ensemble)
        examples = scoring.read_examples(sources=sources, references=references)
        scored = []
        for scores in scoring.each(examples):
            on_scores(scores)
            scored.append(scores)
        if save:
            rows = {"checkpoints": scored} if scoring.kind == "translation" else {}
            _save(lambda: scored[-1].save(scoring.run, scoring.results_name(examples), **rows))
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
        what = {"split": split, "corpus": corpus, "files": files, "test_set": test_set}
        compute = {"dtype": dtype, "batch_size": batch_size}
        scoring = _Scoring(workdir, str(checkpoint), what, compute, search)
        named = [(scoring.run, scoring.checkpoint)]
        for path, name in map(split_checkpoint, others):
            named.append((WorkDir(path), name or "default"))
        for run, name in named:
            config = run.load_config()
            check_comparable(scoring.config, config, str(run.path))
            open_for_reading(run, config).check(name)
        examples = scoring.read_examples()
        runs = [scoring.compared_run(run, name, examples) for run, name in named]
        with phase(f"testing the differences between {len(runs)} runs"):
            result = comparison.compare(runs)
        if save:
            names = ["compare", scoring.results_name(examples), "with", *result.names[1:]]
            folder = bounded_name("_".join(names))
            _save(lambda: result.save(scoring.run, folder))
    return result


class _Scoring:
    """A run, what it is to be scored on, and how. what: arguments of `read_examples`."""

    def __init__(
        self,
        workdir: PathLike,
        checkpoint: str,
        what: dict[str, Any],
        compute: dict[str, Any],
        search: dict[str, Any],
        ensemble: Sequence[PathLike] = (),
    ) -> None:
        self.run = WorkDir(workdir, writes=jax.process_index() == 0)
        self.config = self.run.load_config()
        self.kind = task_kind(self.config.task)
        self.checkpoint, self.what, self.compute = checkpoint, what, compute
        self.search, self.ensemble = search, ensemble
        if self.kind == "translation":
            options = {name: value for name, value in search.items() if name != "metrics"}
            SearchOptions.from_config(self.config.decoding, **options)  # refuses wrong values
        elif search:
            raise ValueError(f"{next(iter(search))} has no effect on a run of {self.config.task}.")

    def read_examples(self, **given: Any) -> EvaluationSet:
        """Returns what is to be scored, the same on all hosts; given: of a program."""
        examples = read_examples(self.run, self.config, **self.what, **given)
        hosts.check_same("the test set", repr(examples[2:]).encode)
        return examples

    def each(self, examples: EvaluationSet) -> Iterator[TaskScores]:
        """Yields the scores of each checkpoint."""
        if self.kind == "translation":
            for translator in self._translators():
                yield evaluate_translator(translator, examples.pairs, examples.title, **self.search)
        elif len(examples.sources):
            yield self._score_given(examples)
        else:
            options = {"corpus": self.config.data.corpus, **self.compute}
            task = TASKS[self.config.task]
            yield task.score_split(self.run, self.checkpoint, examples.name, **options)

    def _translators(self) -> Iterator[Translator]:
        if self.ensemble:
            runs = [self.run, *self.ensemble]
            yield Translator.from_checkpoints(runs, self.checkpoint, **self.compute)
        else:
            names = choose_checkpoints(self.run, self.checkpoint)
            yield from each_checkpoint(self.run, names, **self.compute)

    def _score_given(self, examples: EvaluationSet) -> TaskScores:
        classifier = Classifier.from_checkpoint(self.run, self.checkpoint, **self.compute)
        for label in set(examples.references).difference(classifier.labels.names):
            names = ", ".join(classifier.labels.names)
            raise ValueError(f"The references are classes of the run ({names}), not {label!r}.")
        return evaluate_classifier(classifier, *examples[2:], examples.title)

    def compared_run(self, run: WorkDir, checkpoint: str, examples: EvaluationSet) -> ComparedRun:
        """Restores and scores a run, whose model nothing refers to when this returns."""
        with phase(f"scoring {run.path}"):
            translator = Translator.from_checkpoint(run, checkpoint, **self.compute)
            pairs = examples.pairs, examples.title
            result = evaluate_translator(translator, *pairs, num_maps=0, **self.search)
        best = result.primary
        say(f"{run.path}, checkpoint {result.checkpoint}: {best.name} {best.figures}")
        return compared_run(run.path, result.to_json(), result.segments)

    def results_name(self, examples: EvaluationSet) -> str:
        """Returns the name in results/: the set's, and what is not as the run scores itself."""
        how = scored_otherwise(
            self.run,
            self.checkpoint,
            corpus=self.what["corpus"],
            dtype=self.compute["dtype"],
            search=self.search,
        )
        if self.ensemble:
            how["ensemble"] = "_".join(path_name(str(run)) for run in self.ensemble)
        return results_name(examples.name, how)


def choose_checkpoints(path: PathLike, text: str) -> list[str]:
    """Returns the names in a list like "best,average:5,200"; "all" stands for every saved step.

    A single name is left to `restore` to check. Raises ValueError if one of several is no name of
    a checkpoint, or a step that the run at `path` has not saved.
    """
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    if len(names) == 1 and names != ["all"]:
        return names
    run = WorkDir(path)
    checkpoints = open_for_reading(run, run.load_config())
    for name in names:
        if name != "all":
            checkpoints.check(name)
    steps = map(str, checkpoints.steps())
    chosen = [step for name in names for step in (steps if name == "all" else [name])]
    return list(dict.fromkeys(chosen))


def each_checkpoint(path: PathLike, names: Sequence[str], **settings: Any) -> Iterator[Translator]:
    """Yields one and the same `Translator` with the parameters of each checkpoint in turn.

    The programs compiled for the first checkpoint serve all. settings: dtype and batch_size, as
    `restore` takes them. If there are several, one that cannot be read is left out with a warning.
    Raises ValueError if none can be read.
    """
    translator = None
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


def _save(save: Callable[[], epath.Path]) -> None:
    """Saves results and says where; a run of somebody else may be read only."""
    try:
        file = save()
        report = file.with_name("report.html")
        say(f"scores: {file}" + (f"   report: {report}" if report.exists() else ""))
    except OSError as error:
        if error.errno not in READ_ONLY:
            raise
        say(f"warning: the scores were not saved: {reason_of(error)}")
