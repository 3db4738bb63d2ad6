"""Assigns classes to sentences or images with a trained model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from transformer.checkpoint.train_state import Params
from transformer.data.batch import Batch
from transformer.data.images import ImageBatch, are_shares, fill_images, to_patches
from transformer.data.text_pairs import encode_texts
from transformer.data.tokenizer import check_texts
from transformer.inference.predictor import EncoderPredictor
from transformer.registry import task_kind


@dataclass
class Classification:
    """The most probable class of an example, and the probability of each class by name."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def __str__(self) -> str:
        return self.label


class Classifier(EncoderPredictor):
    """Classifies with given parameters; `from_checkpoint` restores them.

    >>> classifier = Classifier.from_checkpoint("runs/trec")
    >>> classifier.classify(["Who wrote Hamlet ?"])[0].label
    '3'

    Any number of examples may be given; none changes the class of another. `num_truncated` counts
    the sentences that were longer than `data.row_length` tokens.
    """

    tasks = ("classification", "images")

    def classify(self, examples: Sequence[str] | np.ndarray) -> list[Classification]:
        """Returns a `Classification` per example, in order.

        examples: list of str, each a text, or a pair with a tab between its texts if the model has
        token types; or images [N, height, width, channels] (or without the last axis if
        there is one channel) with values from 0 to 1 and the size of the training images. Sentences
        longer than `data.row_length` tokens are truncated and counted in `num_truncated`. Raises
        ValueError for a single str and for images of another shape or range.
        """
        is_image = task_kind(self.config.task) == "images"
        if not is_image:
            check_texts(examples, "classify")
        batches: Any = self._image_batches if is_image else self._text_batches
        found = np.zeros((len(examples), len(self.labels.names)), np.float32)
        for index, probabilities in self._answers(batches(examples)):
            found[index] = probabilities
        return [self._classification(row) for row in found.astype(float)]

    def _apply(self, params: Params, batch: Batch | ImageBatch) -> jax.Array:
        """Returns probabilities [B, classes]."""
        logits: Any = self.model.apply({"params": params}, batch, deterministic=True)
        return jax.nn.softmax(logits[:, 0])

    def _classification(self, probabilities: np.ndarray) -> Classification:
        by_name = dict(zip(self.labels.names, probabilities.tolist(), strict=True))
        label = max(by_name, key=by_name.__getitem__)
        return Classification(label, by_name[label], by_name)

    def _text_batches(self, texts: Sequence[str]) -> Iterator[tuple[np.ndarray, Batch]]:
        return self._sentence_batches(encode_texts(self.tokenizer, texts, self.config.model))

    def _image_batches(self, images: np.ndarray) -> Iterator[tuple[np.ndarray, ImageBatch]]:
        """Yields (indices [B] of the images, -1 for an empty row; one image per row)."""
        size = self.config.decoding.batch_size
        patches = to_patches(self._check_images(images), self.config.data.patch_size)
        for start in range(0, len(patches), size):
            part = patches[start : start + size]
            indices = np.full(size, -1)
            indices[: len(part)] = np.arange(start, start + len(part))
            yield indices, fill_images(part, np.zeros(len(part), np.int32), size)

    def _check_images(self, images: np.ndarray) -> np.ndarray:
        """Returns images [N, height, width, channels] float32; ValueError if they do not fit."""
        images = np.asarray(images, np.float32)
        if list(images.shape[1:]) == self.labels.image_shape[:2]:
            images = images[..., None]
        if list(images.shape[1:]) != self.labels.image_shape:
            shape = " × ".join(map(str, self.labels.image_shape))
            raise ValueError(f"This run classifies images of {shape}, not an array {images.shape}.")
        if not are_shares(images):
            raise ValueError(
                f"Images are numbers from 0 to 1, these go from {images.min():g} to "
                f"{images.max():g}; divide those of bytes by 255."
            )
        return images
