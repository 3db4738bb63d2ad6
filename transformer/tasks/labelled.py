"""Shared base of the classification tasks, for sentences and for images."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from etils.epath import PathLike

from transformer.checkpoint.train_state import Params
from transformer.data.files.labels import FILE, Labels
from transformer.evaluation.classification import evaluate_classifier
from transformer.evaluation.scores import TaskScores
from transformer.inference.encoders import Classifier
from transformer.tasks.task import Metrics, Task


class LabelledTask(Task):
    """Validates by accuracy; a subclass's constructor also sets `labels` and `validation`."""

    selection_key, higher_is_better = "validation_accuracy", True
    predictor = Classifier
    score: ClassVar[Callable[..., TaskScores]] = staticmethod(evaluate_classifier)
    # (examples, labels, …) of (DataConfig, split, classes); each label must be one of the classes
    load_split: Any
    validation: tuple[Any, Sequence[str]]  # examples as `Classifier.classify` takes them, labels

    def _load_or_make_labels(
        self, labels: Sequence[str], image_shape: Sequence[int] = ()
    ) -> Labels:
        """Returns the classes of a run that has begun, or those of `labels`.

        A run that starts from a classifier takes its classes if `labels` are among them.
        """
        if self.workdir.has_run:
            return Labels.load(self.workdir.path)
        new = Labels.from_labels(labels, image_shape)
        if self._source and (self._source / FILE).is_file():
            former = Labels.load(self._source.path)
            if former.image_shape == new.image_shape and set(new.names) <= set(former.names):
                return former
        return new

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics, every text with what it should have been given and what it was)."""
        with self._predicting(params) as classifier:
            result = self.score(classifier, *self.validation, "validation")
        metrics = self.evaluate_loss(params)
        metrics |= {f"validation_{name}": score.value for name, score in result.scores.items()}
        rows = [list(row.values())[:3] for row in result.rows]
        return metrics, [
            f"    {text}\n    = {label}\n    > {answer}" for text, label, answer in rows if text
        ]

    @classmethod
    def score_split(
        cls, path: PathLike, checkpoint: str, split: str, *, corpus: str = "", **options: Any
    ) -> TaskScores:
        classifier = cls.predictor.from_checkpoint(path, checkpoint, **options)
        data = replace(classifier.config.data, corpus=corpus or classifier.config.data.corpus)
        examples, labels = cls.load_split(data, split, classifier.labels.names)[:2]
        return cls.score(classifier, examples, labels, f"{data.corpus} {split}")
