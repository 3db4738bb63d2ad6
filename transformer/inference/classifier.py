"""Sentences or images to classes: the public object, made from a work directory in one line."""

from dataclasses import dataclass

import jax
import numpy as np

from transformer.checkpoint.restore import cast_matrices, put_restored, restore
from transformer.data.batch import Batch
from transformer.data.bucketing import fill_inputs, plan_batches
from transformer.data.images import fill_images, to_patches
from transformer.data.labels import Labels
from transformer.data.ragged import Ragged
from transformer.data.tokenizer_files import load_tokenizers
from transformer.model.encoder_only import ImageClassifier, TextClassifier

TASKS = ["classification", "images"]


@dataclass
class Classification:
    """The most probable class of an example, and the probability of each class by name."""

    label: str
    probability: float
    probabilities: dict[str, float]

    def __str__(self):
        return self.label


class Classifier:
    """Classifies with given parameters; `from_checkpoint` finds them.

    >>> classifier = Classifier.from_checkpoint("runs/trec")
    >>> classifier.classify(["Who wrote Hamlet ?"])[0].label
    '3'

    Any number of examples may be given; none changes the class of another.
    """

    def __init__(self, config, params, labels, tokenizer=None):
        self.config, self.labels, self.tokenizer = config, labels, tokenizer
        self.checkpoint = "in memory"
        self.step, self.num_averaged = None, 1  # of what was restored
        self.num_truncated = 0  # sentences longer than the largest bucket
        if self.is_of_images:
            self.model = ImageClassifier(config.model, len(labels.names))
        else:
            self.model = TextClassifier(
                config.model, tokenizer.vocab_size, num_classes=len(labels.names)
            )
        self._probabilities = jax.jit(self._apply)
        self.params = params

    @classmethod
    def from_checkpoint(cls, path, checkpoint="default", *, dtype=None, batch_size=None):
        """Restores a work directory, whatever wrote it; arguments as of `restore.restore`."""
        restored = restore(path, checkpoint, tasks=TASKS, dtype=dtype, batch_size=batch_size)
        folder, config = restored.workdir.path, restored.config
        tokenizer = None if config.task == "images" else load_tokenizers(folder)[0]
        classifier = cls(config, None, Labels.load(folder), tokenizer)
        return put_restored(classifier, restored, classifier.smallest_batch())

    @property
    def is_of_images(self):
        return self.config.task == "images"

    @property
    def params(self):
        """The weights."""
        return self._params

    @params.setter
    def params(self, params):
        self._params = params and jax.device_put(cast_matrices(params, self.config))

    def smallest_batch(self):
        """One example, for the shapes of parameters."""
        if self.is_of_images:
            return next(self._image_batches(np.zeros([1, *self.labels.image_shape])))[1]
        return sentence_batch(np.zeros((1, 1), np.int32), np.ones(1, np.int32))

    def classify(self, examples):
        """A `Classification` of each sentence (list of str) or image ([N, height, width, …]).

        A sentence beyond the largest bucket is truncated and counted in `num_truncated`. Images are
        numbers from 0 to 1, of the shape that the run learnt from.
        """
        if isinstance(examples, str):
            raise ValueError("classify takes a list of sentences: classify([text])[0].")
        batches = self._image_batches if self.is_of_images else self._sentence_batches
        found = np.zeros((len(examples), len(self.labels.names)), np.float32)
        for indices, batch in batches(examples):
            probabilities = jax.device_get(self._probabilities(self._params, batch))
            found[indices[indices >= 0]] = probabilities[indices >= 0]
        return [self._name(row) for row in found.astype(float)]

    def _apply(self, params, batch):
        logits = self.model.apply({"params": params}, batch, deterministic=True)
        return jax.nn.softmax(logits[:, 0])

    def _name(self, probabilities):
        named = dict(zip(self.labels.names, probabilities.tolist(), strict=True))
        label = max(named, key=named.get)
        return Classification(label, named[label], named)

    def _sentence_batches(self, sentences):
        """Yields (which sentences, -1 for none, a `Batch` with one in each row)."""
        source = Ragged.encode(self.tokenizer, sentences)
        longest = self.config.data.row_length
        for indices, bucket in plan_batches(
            source.lengths, longest, self.config.decoding.batch_size
        ):
            inputs, lengths, num_cut = fill_inputs(source, indices[0], bucket)
            self.num_truncated += num_cut
            yield indices[0], sentence_batch(inputs, lengths)

    def _image_batches(self, images):
        size = self.config.decoding.batch_size
        patches = to_patches(self._checked(images), self.config.data.patch_size)
        for start in range(0, len(patches), size):
            part = patches[start : start + size]
            indices = np.full(size, -1)
            indices[: len(part)] = np.arange(start, start + len(part))
            yield indices, fill_images(part, np.zeros(len(part), np.int32), size)

    def _checked(self, images):
        images = np.asarray(images, np.float32)
        if list(images.shape[1:]) == self.labels.image_shape[:2]:
            images = images[..., None]
        if list(images.shape[1:]) != self.labels.image_shape:
            shape = " × ".join(map(str, self.labels.image_shape))
            raise ValueError(f"This run classifies images of {shape}, not an array {images.shape}.")
        if len(images) and not (images.min() > -0.01 and images.max() < 1.01):
            raise ValueError(
                f"Images are numbers from 0 to 1, these go from {images.min():g} to "
                f"{images.max():g}; divide those of bytes by 255."
            )
        return images


def sentence_batch(inputs, lengths):
    """Sentences [B, S] of `lengths`, one a row, as the `Batch` of a classifier."""
    unknown = np.zeros((len(inputs), 1), np.int32)  # the class, which the model does not read
    one = np.ones(len(inputs), np.int32)
    return Batch.from_arrays(inputs, unknown, input_lengths=lengths, target_lengths=one)
