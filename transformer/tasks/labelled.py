"""What tasks have in common whose examples have labels, be they sentences or images."""

import numpy as np

from transformer.evaluate.classification import evaluate_classifier
from transformer.inference.classifier import Classifier
from transformer.tasks.task import Task


class LabelledTask(Task):
    """A subclass has a `classifier`, and `validation`: (examples, labels).

    load_split(data, split, classes) reads such a pair.
    """

    selection_key, higher_is_better = "validation_accuracy", True

    def _set_up_classifier(self, batches, validation_batches):
        config = self.config
        model = self.classifier.model.clone(remat=config.remat, scan_layers=config.scan_layers)
        self._set_up(model, batches, validation_batches, config.training.label_smoothing)

    def evaluate(self, params):
        examples, labels = self.validation
        self.classifier.params = self.parallel.copy_to_one_device(params)
        found = self.classifier.classify(examples)
        self.classifier.params = None
        right = [c.label == label for c, label in zip(found, labels, strict=True)]
        measured = self.evaluate_loss(params) | {"validation_accuracy": 100 * float(np.mean(right))}
        rows = zip(examples, labels, found, strict=True)
        return measured, [
            f"    {text}\n    = {label}\n    > {c}"
            for text, label, c in rows
            if isinstance(text, str)
        ]

    @classmethod
    def score_split(cls, path, checkpoint, split, **settings):
        classifier = Classifier.from_checkpoint(path, checkpoint, **settings)
        data = classifier.config.data
        examples, labels = cls.load_split(data, split, classifier.labels.names)
        return evaluate_classifier(classifier, examples, labels, f"{data.corpus} {split}")
