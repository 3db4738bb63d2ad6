"""Shared base of the classification tasks, for sentences and for images."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.train_state import Params
from transformer.config import DataConfig
from transformer.data.labels import FILE, Labels
from transformer.evaluation.classification import evaluate_classifier
from transformer.evaluation.task_scores import TaskScores
from transformer.inference.classifier import Classifier
from transformer.tasks.batches import TrainingT
from transformer.tasks.task import Metrics, Task


class LabelledTask(Task[TrainingT, TrainingT], ABC):
    """Validates by accuracy; a subclass's constructor also sets the three attributes below."""

    selection_key, higher_is_better = "validation_accuracy", True
    predictor: ClassVar[Any] = Classifier
    score: ClassVar[Callable[..., TaskScores]] = staticmethod(evaluate_classifier)
    labels: Labels
    classifier: Any  # a `predictor`
    validation: tuple[Any, Sequence[str]]  # examples as `Classifier.classify` takes them, labels

    @staticmethod
    @abstractmethod
    def load_split(data: DataConfig, split: str, classes: Sequence[str]) -> tuple[Any, list[str]]:
        """Returns (examples, labels) of a split; each label must be one of `classes`."""

    def _load_or_make_labels(
        self, labels: Sequence[str], image_shape: Sequence[int] = ()
    ) -> Labels:
        """Returns the classes of a run that has begun, or those of `labels`.

        A run that starts from a classifier takes its classes if `labels` are among them.
        """
        if self.workdir.has_run:
            return Labels.load(self.workdir.path)
        found = Labels.from_labels(labels, image_shape)
        if self._source and (self._source / FILE).is_file():
            theirs = Labels.load(self._source.path)
            if theirs.image_shape == found.image_shape and set(found.names) <= set(theirs.names):
                return theirs
        return found

    def evaluate(self, params: Params) -> tuple[Metrics, list[str]]:
        """Returns (metrics, every sentence with its label and the class that was found)."""
        examples, labels = self.validation
        with self._whole_params(self.classifier, params):
            found = self.classifier.classify(examples)
        is_right = [c.label == label for c, label in zip(found, labels, strict=True)]
        metrics = self.evaluate_loss(params)
        metrics["validation_accuracy"] = 100 * float(np.mean(is_right))
        return metrics, [
            f"    {text}\n    = {label}\n    > {c}"
            for text, label, c in zip(examples, labels, found, strict=True)
            if isinstance(text, str)
        ]

    @classmethod
    def score_split(
        cls,
        path: PathLike,
        checkpoint: str,
        split: str,
        *,
        corpus: str | None = None,
        dtype: str | None = None,
        batch_size: int | None = None,
    ) -> TaskScores:
        classifier = cls.predictor.from_checkpoint(
            path, checkpoint, dtype=dtype, batch_size=batch_size
        )
        data = replace(classifier.config.data, corpus=corpus or classifier.config.data.corpus)
        examples, labels = cls.load_split(data, split, classifier.labels.names)
        return cls.score(classifier, examples, labels, f"{data.corpus} {split}")
