"""The tasks of classifying sentences, and each word of a sentence: entities, parts of speech."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from etils.epath import PathLike

from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.console import quantity
from transformer.data.corpora.cleaning import length_warnings
from transformer.data.files.labels import FILE, Labels
from transformer.data.files.texts import (
    load_evaluation_examples,
    load_labelled_words,
    load_training_examples,
)
from transformer.data.rows.encoded_texts import (
    encode_texts,
    encode_words,
    label_first_pieces,
    sides,
)
from transformer.data.rows.packing import PackedBatches, num_rows_of_batch
from transformer.data.rows.ragged import Ragged
from transformer.evaluation.classification import entities, evaluate_classifier, evaluate_tagger
from transformer.evaluation.scores import TaskScores
from transformer.inference.encoders import Classifier, Tagger
from transformer.model.costs import StepCost, stack_flops
from transformer.model.loss import Sums
from transformer.parallel.mapping import Parallel
from transformer.tasks.task import Metrics, Task
from transformer.workdir import WorkDir


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


class ClassificationTask(LabelledTask):
    """Packs sentences as translation does: the target of a sentence is one id, its class.

    T, the number of targets in a row, is that of the sentences of mean length that fit S. A
    subclass may have other targets, and another predictor.
    """

    training_batches: PackedBatches
    load_training: Any = staticmethod(load_training_examples)  # texts, labels, repairs
    load_split = staticmethod(load_evaluation_examples)
    names_in: Any = staticmethod(lambda labels: labels)  # the classes that labels of texts hold

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        data, training = config.data, config.training
        texts, labels, problems = self.load_training(data)
        self.labels = self._load_or_make_labels(self.names_in(labels))
        self.tokenizer = self._load_or_train_tokenizer(sides(texts, config.model))
        self.validation = self.load_split(data, data.validation_split, self.labels.names)[:2]
        self.load_split(data, data.test_split, self.labels.names)  # else it fails after training
        self.tokenizers = (self.tokenizer,)
        self.model = self._make_model()
        num_rows = num_rows_of_batch(training.batch_tokens, data.row_length)
        self.training_batches, skipped = self._pack(texts, labels, num_rows)
        self.num_skipped = problems + skipped
        texts, labels = self.validation
        self.validation_batches, self.num_skipped_validation = self._pack(
            texts, labels, -(-num_rows // training.accumulate_steps)
        )

    def _pack(
        self, texts: Sequence[str], labels: Sequence[str], num_rows: int
    ) -> tuple[PackedBatches, Counter[str]]:
        """Returns batches of the sentences that fit a row, and counts of the others."""
        length = self.config.data.row_length
        source, target, skipped = self._fitting("sentence", *self._encode(texts, labels))
        batches = PackedBatches(
            source,
            target,
            row_length=max(1, round(length * target.lengths.mean() / source.lengths.mean())),
            source_length=length,
            rows_per_batch=num_rows,
            seed=self.config.training.seed,
        )
        return batches, skipped

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> tuple[Ragged, Ragged]:
        """Returns the ids of each text, and its targets."""
        classes = self.labels.encode(labels)
        target = Ragged(classes, np.arange(len(classes)), np.ones(len(classes), np.int64))
        return encode_texts(self.tokenizer, texts, self.config.model), target

    def training_contents(self) -> list[Any]:
        sides = self.training_batches.source, self.training_batches.target
        return [array for side in sides for array in (side.flat, side.starts)]

    @cached_property
    def cost_per_step(self) -> StepCost:
        batches, model = self.training_batches, self.config.model
        num_targets, num_steps = batches.target.lengths.sum(), batches.batches_per_epoch
        outputs = num_targets * model.d_model * len(self.labels.names)
        flops = stack_flops(model, batches.source.lengths, outputs=outputs)
        return StepCost(flops / num_steps, num_targets / num_steps)

    def summary_lines(self) -> list[str]:
        batches = self.training_batches
        length, num_targets = batches.shape
        fill = (batches[0].input_segments != 0).mean()
        lines = self._lines(
            f": {len(batches.source):,} training sentences of {len(self.labels.names)} classes",
            f"{length} tokens, {fill:.1%} of them real, {num_targets} targets",
            quantity(len(self.validation[0]), "sentence"),
        )
        warnings = length_warnings(self.num_skipped, len(batches.source))
        return lines + [f"warning     {warning}" for warning in warnings]


class TokenClassificationTask(ClassificationTask):
    """The first piece of a word has its class as the target, from 1; 0 stands at all others.

    The best checkpoint is that of the highest F1 of entities, or accuracy where there are none.
    """

    predictor = Tagger
    score = staticmethod(evaluate_tagger)
    load_training = staticmethod(lambda data: load_labelled_words(data, data.train_split))
    load_split = staticmethod(load_labelled_words)
    names_in = staticmethod(lambda labels: [name for row in labels for name in row.split()])

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        has_entities = any(entities(labels.split()) for labels in self.validation[1])
        self.selection_key = "validation_f1" if has_entities else "validation_accuracy"

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> tuple[Ragged, Ragged]:
        source, firsts = encode_words(self.tokenizer, texts, self.config.model)
        classes = self.labels.encode(self.names_in(labels))
        return source, label_first_pieces(source, firsts, classes)

    def loss_fn(self, params: Params, batch: Any, rng: jax.Array | None) -> tuple[jax.Array, Sums]:
        counts = batch.targets != 0
        batch = batch._replace(
            targets=jnp.maximum(batch.targets - 1, 0),
            target_segments=jnp.where(counts, batch.target_segments, 0),
        )
        return super().loss_fn(params, batch, rng)
