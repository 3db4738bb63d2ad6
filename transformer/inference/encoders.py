"""What a trained encoder makes of examples: classes of texts or images, word labels, vectors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer.checkpoint.restore import Run
from transformer.checkpoint.train_state import Params
from transformer.data.corpora.corpora import Tags
from transformer.data.rows.batch import Batch
from transformer.data.rows.bucketing import fill_inputs, plan_batches
from transformer.data.rows.encoded_texts import encode_texts, encode_words
from transformer.data.rows.images import ImageBatch, are_shares, fill_images, to_patches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import check_texts
from transformer.inference import scoring
from transformer.inference.predictor import Predictor
from transformer.inference.translation import to_json
from transformer.model.single_stack import pool
from transformer.registry import task_kind
from transformer.search.programs import one_behind

NOT_SEEN = "?"  # the label of words behind the longest text that the model takes
POOLINGS = ("mean", "first")


class EncoderPredictor(Predictor):
    """A model that reads each example in one pass of an encoder, on one device.

    tokenizer: that of the texts; None for a model of images.
    """

    def __init__(self, run: Run, devices: Sequence[jax.Device] | None = None) -> None:
        super().__init__(run, devices)
        self.tokenizer: Any = run.tokenizers[0] if run.tokenizers else None
        self._compiled = jax.jit(self._apply)

    def _apply(self, params: Params, batch: Any) -> jax.Array:
        """Returns a result for each row of a batch, [B, …]."""
        raise NotImplementedError

    def _compute(self, batches: Iterable[tuple[np.ndarray, Any]]) -> Iterator[tuple[int, Any]]:
        """Yields (index, result) of each example; batches: (indices [B], -1 for none; B rows)."""
        given = ((indices, self._compiled(self._params, batch)) for indices, batch in batches)
        return self._each_row(one_behind(given))

    def _compute_texts(self, source: Ragged) -> Iterator[tuple[int, Any]]:
        """Yields (index, result) of each sentence, one a row, T = 1; counts those that are cut."""
        longest, size = self.config.data.row_length, self.config.decoding.batch_size
        self.num_truncated += int((source.lengths > longest).sum())

        def batches() -> Iterator[tuple[np.ndarray, Batch]]:
            for (indices,), bucket in plan_batches(source.lengths, longest, size):
                inputs, lengths = fill_inputs(source, indices, bucket)
                yield indices, Batch.from_arrays(inputs, input_lengths=lengths)

        return self._compute(batches())


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
        given: Any = examples
        if task_kind(self.config.task) == "images":
            rows = self._compute(self._image_batches(given))
        else:
            check_texts(given, "classify")
            rows = self._compute_texts(encode_texts(self.tokenizer, given, self.config.model))
        classes: list[Any] = [None] * len(examples)
        for index, row in rows:
            by_name = dict(zip(self.labels.names, row.astype(float).tolist(), strict=True))
            label = max(by_name, key=by_name.__getitem__)
            classes[index] = Classification(label, by_name[label], by_name)
        return classes

    def answers(self, lines: list[str], *, jsonl: bool = False) -> list[str]:
        """Returns the class of each line; with `jsonl` as JSON, with the probabilities."""
        classes = self.classify(lines)
        if not jsonl:
            return [*map(str, classes)]
        both = zip(lines, classes, strict=True)
        records = ({"text": t, "label": c.label, "probabilities": c.probabilities} for t, c in both)
        return [*map(to_json, records)]

    def _apply(self, params: Params, batch: Any) -> jax.Array:
        """Returns probabilities [B, classes]."""
        return jax.nn.softmax(scoring.logits(self.model, params, batch)[:, 0])

    def _image_batches(self, images: np.ndarray) -> Iterator[tuple[np.ndarray, ImageBatch]]:
        """Yields batches for `_compute`, one image per row; raises ValueError for unfit images."""
        images, size = np.asarray(images, np.float32), self.config.decoding.batch_size
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
        patches = to_patches(images, self.config.data.patch_size)
        for start in range(0, len(patches), size):
            rows = patches[start : start + size]
            indices = np.full(size, -1)
            indices[: len(rows)] = np.arange(start, start + len(rows))
            yield indices, fill_images(rows, np.zeros(len(rows), np.int32), size)


class Tagger(EncoderPredictor):
    """Labels words with given parameters; `from_checkpoint` restores them.

    >>> Tagger.from_checkpoint("runs/entities").tag(["Paris sleeps ."])
    [['B-PLACE', 'O', 'O']]

    `num_truncated` counts the texts that were longer than `data.row_length` tokens.
    """

    tasks = ("token_classification",)

    def tag(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the label of each word of each text, in order; words are divided by white space.

        Words behind `data.row_length` tokens get the label "?", and the text is counted in
        `num_truncated`. Raises ValueError for a single str.
        """
        check_texts(texts, "tag")
        source, firsts = encode_words(self.tokenizer, texts, self.config.model)
        labels: list[list[str]] = [[] for _ in texts]
        for index, classes in self._compute_texts(source):
            places = firsts[index]
            num_seen = min(source.lengths[index], self.config.data.row_length) - 1  # without EOS
            names = [self.labels.names[n] for n in classes[places[places < num_seen]]]
            labels[index] = names + [NOT_SEEN] * (len(places) - len(names))
        return labels

    def answers(self, lines: list[str], *, jsonl: bool = False) -> list[str]:
        """Returns the labels of each line, with blanks between; with `jsonl` as JSON."""
        rows = zip(lines, self.tag(lines), strict=True)
        if not jsonl:
            return [" ".join(labels) for _, labels in rows]
        return [to_json({"words": line.split(), "labels": labels}) for line, labels in rows]

    def _apply(self, params: Params, batch: Batch) -> jax.Array:
        """Returns the class of each position, [B, S]."""
        return scoring.logits(self.model, params, batch).argmax(-1)


class TextEncoder(EncoderPredictor):
    """Encodes texts with given parameters; `from_checkpoint` restores them.

    >>> encoder = TextEncoder.from_checkpoint("runs/masked")
    >>> encoder.encode(["Who wrote Hamlet ?", "A man sleeps ."]).shape
    (2, 128)

    It opens runs of an encoder: masked language models, classifiers, and translation models, whose
    sources it encodes. `num_truncated` counts the texts longer than `data.row_length` tokens.
    """

    tasks = ("masked_lm", "classification", "token_classification", "translation")

    def encode(self, texts: Sequence[str], *, pooling: str = "mean") -> np.ndarray:
        """Returns a vector per text, [N, D] float32, in order; no text changes another's vector.

        pooling: "mean" of the encoder's output over the tokens of a text, the end included, or
        "first", that of the first token, which is [CLS] for BERT. Texts longer than
        `data.row_length` tokens are truncated and counted in `num_truncated`. Raises ValueError for
        a single str and for another pooling.
        """
        check_texts(texts, "encode")
        if pooling not in POOLINGS:
            raise ValueError(f"pooling must be {' or '.join(POOLINGS)}, not {pooling!r}.")
        if task_kind(self.config.task) == "translation":
            texts = [*map(Tags(self.config.data).put_on, texts)]
        source = encode_texts(self.tokenizer, texts, self.config.model)
        vectors = np.zeros((len(texts), self.config.model.d_model), np.float32)
        for index, pooled in self._compute_texts(source):
            vectors[index] = pooled[POOLINGS.index(pooling)]
        return vectors

    def _apply(self, params: Params, batch: Batch) -> jax.Array:
        """Returns a vector for each of `POOLINGS`, [B, 2, D]."""
        inputs: tuple[Any, ...] = (batch,)
        if task_kind(self.config.task) == "translation":
            inputs = batch.inputs, batch.input_positions, batch.input_segments
        encode = partial(self.model.apply, deterministic=True, method="encode")
        encoded: Any = encode({"params": params}, *inputs)
        vectors = [pool(encoded, batch, pooling) for pooling in POOLINGS]
        return jnp.concatenate(vectors, axis=1).astype(jnp.float32)
