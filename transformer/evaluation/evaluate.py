"""Evaluating a run from Python: what the evaluate command scores, for every task."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from etils.epath import PathLike

from transformer.config import Config
from transformer.console import showing_phases, silence
from transformer.data.corpora.corpora import Tags
from transformer.data.corpora.held_out import read_held_out
from transformer.data.corpora.training_text import load_evaluation_pairs
from transformer.data.tokenizers.sentencepiece import check_texts
from transformer.evaluation.classification import evaluate_classifier
from transformer.evaluation.metrics import Reference, all_references
from transformer.evaluation.results import checksum, results_name, scored_otherwise
from transformer.evaluation.task_scores import TaskScores
from transformer.evaluation.translation import evaluate_translator
from transformer.inference.encoders import Classifier
from transformer.inference.translator import Translator
from transformer.registry import TASKS, task_kind
from transformer.workdir import WorkDir

GIVEN = "given"  # the name of examples that are no split of a corpus

Examples = tuple[Any, list[Any]]  # (sources, references)


def evaluate(
    workdir: PathLike,
    checkpoint: str | int = "default",
    *,
    split: str | None = None,
    sources: Sequence[str] | np.ndarray | None = None,
    references: Sequence[Reference] | None = None,
    corpus: str | None = None,
    dtype: str | None = None,
    batch_size: int | None = None,
    save: bool = False,
    verbose: bool = True,
    **search: Any,
) -> TaskScores:
    """Scores a checkpoint of a run, of any task, by the task's own metrics.

    >>> result = transformer.evaluate("runs/mine", beam_size=8)
    >>> result.scores["bleu"].value

    Args:
      workdir, checkpoint, dtype, batch_size: as `transformer.restore` takes them.
      split: the part of the corpus to score; None: the configuration's test split.
      sources, references: examples to score instead, with what each should become: translations, or
        the classes of a classifier's texts or images; several translations are a tuple.
      corpus: where the run's text is now, if it has moved.
      save: whether to write the scores to results/ of the work directory, as eval.py does.
      verbose: whether to show on standard error what takes long.
      search: options of the search of a translation run, as `Translator.translate` takes them, and
        `metrics`, a list of further ones, as eval.py takes them.

    Raises ValueError if there is no such run, checkpoint or split, or for options that do not fit.
    """
    config = WorkDir(workdir).load_config()
    if corpus and task_kind(config.task) == "translation":
        Tags(config.data).check_known(corpus)
    config.data.corpus = corpus or config.data.corpus
    split = split or config.data.test_split
    if search and task_kind(config.task) != "translation":
        raise ValueError(f"{next(iter(search))} has no effect on a run of {config.task}.")
    examples = _given_examples(config, sources, references)
    run: dict[str, Any] = {"dtype": dtype, "batch_size": batch_size}
    with showing_phases() if verbose else silence():
        result = _score(config, workdir, str(checkpoint), split, examples, run, search)
        if save:
            folder = WorkDir(workdir, writes=jax.process_index() == 0)
            how = scored_otherwise(
                workdir, str(checkpoint), corpus=corpus, dtype=dtype, search=search
            )
            test_set = f"{GIVEN}_{'_'.join(map(checksum, examples))}" if examples else split
            result.save(folder, results_name(test_set, how))
    return result


def _score(
    config: Config,
    workdir: PathLike,
    checkpoint: str,
    split: str,
    examples: Examples | None,
    run: dict[str, Any],
    search: dict[str, Any],
) -> TaskScores:
    """Scores `examples` or else a split; run, search: options of restoring and of searching."""
    corpus = config.data.corpus
    name = GIVEN if examples else f"{corpus} {split}"
    if task_kind(config.task) == "translation":
        translator = Translator.from_checkpoint(workdir, checkpoint, **run)
        if examples:
            pairs = list(zip(*examples, strict=True))
        else:
            own = WorkDir(workdir)
            is_own = own.load_config().data.corpus == corpus
            kept = read_held_out(own.path) if is_own else None
            pairs = load_evaluation_pairs(config.data, split, kept)
        return evaluate_translator(translator, pairs, name, **search)
    if examples:
        classifier = Classifier.from_checkpoint(workdir, checkpoint, **run)
        for label in set(examples[1]).difference(classifier.labels.names):
            names = ", ".join(classifier.labels.names)
            raise ValueError(f"The references are classes of the run ({names}), not {label!r}.")
        return evaluate_classifier(classifier, *examples, name)
    return TASKS[config.task].score_split(workdir, checkpoint, split, corpus=corpus, **run)


def _given_examples(
    config: Config,
    sources: Sequence[str] | np.ndarray | None,
    references: Sequence[Reference] | None,
) -> Examples | None:
    """Returns (sources, references) if both were given; raises ValueError if they do not pair."""
    if sources is None and references is None:
        return None
    if sources is None or references is None:
        raise ValueError("sources and references go together: give both, or neither.")
    kind = task_kind(config.task)
    if kind not in ("translation", "classification", "images"):
        raise ValueError(f"A run of {config.task} is scored on a split: leave out sources.")
    may_be_several = kind == "translation" and not isinstance(references, str)
    several = (text for each in references for text in all_references(each))
    check_texts(several if may_be_several else references, "references")
    if kind != "images":
        check_texts(sources, "sources")
    if len(sources) != len(references) or not len(sources):
        raise ValueError(
            f"There are {len(sources)} sources and {len(references)} references; they must pair, "
            f"and there must be at least one."
        )
    return sources, list(references)
