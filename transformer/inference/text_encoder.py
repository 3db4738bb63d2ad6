"""Turns texts into vectors with the encoder of a trained model."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from transformer.checkpoint.train_state import Params
from transformer.data.batch import Batch
from transformer.data.corpora import Tags
from transformer.data.text_pairs import encode_texts
from transformer.data.tokenizer import check_texts
from transformer.inference.predictor import EncoderPredictor
from transformer.model.encoder_only import pool
from transformer.registry import task_kind

POOLINGS = ("mean", "first")


class TextEncoder(EncoderPredictor):
    """Encodes texts with given parameters; `from_checkpoint` restores them.

    >>> encoder = TextEncoder.from_checkpoint("runs/masked")
    >>> encoder.encode(["Who wrote Hamlet ?", "A man sleeps ."]).shape
    (2, 128)

    It opens runs of an encoder: masked language models, classifiers, and translation models, whose
    sources it encodes. `num_truncated` counts the texts longer than `data.row_length` tokens.
    """

    tasks = ("masked_lm", "classification", "token_classification", "translation")

    @property
    def _is_translation(self) -> bool:
        return task_kind(self.config.task) == "translation"

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
        if self._is_translation:
            texts = [*map(Tags(self.config.data).put_on, texts)]
        source = encode_texts(self.tokenizer, texts, self.config.model)
        vectors = np.zeros((len(texts), self.config.model.d_model), np.float32)
        for index, found in self._answers(self._sentence_batches(source)):
            vectors[index] = found[POOLINGS.index(pooling)]
        return vectors

    def _apply(self, params: Params, batch: Batch) -> jax.Array:
        """Returns a vector for each of `POOLINGS`, [B, 2, D]."""
        inputs: tuple[Any, ...] = (batch,)
        if self._is_translation:
            inputs = batch.inputs, batch.input_positions, batch.input_segments
        encode = partial(self.model.apply, deterministic=True, method="encode")
        encoded: Any = encode({"params": params}, *inputs)
        vectors = [pool(encoded, batch, pooling) for pooling in POOLINGS]
        return jnp.concatenate(vectors, axis=1).astype(jnp.float32)
