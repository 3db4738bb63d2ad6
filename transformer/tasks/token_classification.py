"""The task of labelling each word of a text: named entities, parts of speech."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from transformer.checkpoint.train_state import Params
from transformer.config import Config, DataConfig
from transformer.data.files.labelled_text import LabelledTexts
from transformer.data.rows.labelled_words import (
    encode_words,
    label_first_pieces,
    load_labelled_words,
)
from transformer.data.rows.ragged import Ragged
from transformer.evaluation.tagging import entities, evaluate_tagger
from transformer.inference.encoders import Tagger
from transformer.parallel.mapping import Parallel
from transformer.tasks.classification import ClassificationTask
from transformer.workdir import WorkDir


class TokenClassificationTask(ClassificationTask):
    """The first piece of a word has its class as the target, from 1; 0 stands at all others.

    The best checkpoint is that of the highest F1 of entities, or accuracy where there are none.
    """

    predictor, verb = Tagger, "tag"
    score = staticmethod(evaluate_tagger)

    def __init__(self, config: Config, parallel: Parallel, workdir: WorkDir) -> None:
        super().__init__(config, parallel, workdir)
        has_entities = any(entities(labels.split()) for labels in self.validation[1])
        self.selection_key = "validation_f1" if has_entities else "validation_accuracy"

    def _encode(self, texts: Sequence[str], labels: Sequence[str]) -> tuple[Ragged, Ragged]:
        source, firsts = encode_words(self.tokenizer, texts, self.config.model)
        classes = self.labels.encode(self.names_in(labels))
        return source, label_first_pieces(source, firsts, classes)

    @staticmethod
    def load_training(data: DataConfig) -> LabelledTexts:
        return load_labelled_words(data, data.train_split)

    @staticmethod
    def names_in(labels: Sequence[str]) -> Sequence[str]:
        return [name for row in labels for name in row.split()]

    @staticmethod
    def load_split(
        data: DataConfig, split: str, classes: Sequence[str]
    ) -> tuple[list[str], list[str]]:
        return load_labelled_words(data, split, classes)[:2]

    def loss_fn(
        self, params: Params, batch: Any, rng: jax.Array | None
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        counts = batch.targets != 0
        batch = batch._replace(
            targets=jnp.maximum(batch.targets - 1, 0),
            target_segments=jnp.where(counts, batch.target_segments, 0),
        )
        return super().loss_fn(params, batch, rng)

    @staticmethod
    def answer(text: str, found: Any) -> tuple[str, dict[str, Any]]:
        return " ".join(found), {"words": text.split(), "labels": found}
