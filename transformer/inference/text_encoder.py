"""Turns texts into vectors with the encoder of a trained model."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import jax
import numpy as np

from transformer.checkpoint.restore import Restored
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.data.labels import Labels
from transformer.data.ragged import Ragged
from transformer.data.tags import Tags
from transformer.data.text_pairs import encode_texts
from transformer.data.tokenizer import check_texts
from transformer.data.tokenizer_files import Tokenizer
from transformer.inference.predictor import Predictor
from transformer.model.encoder_only import pool
from transformer.registry import task_kind

POOLINGS = ("mean", "first")


class TextEncoder(Predictor):
    """Encodes texts with given parameters; `from_checkpoint` restores them.

    >>> encoder = TextEncoder.from_checkpoint("runs/masked")
    >>> encoder.encode(["Who wrote Hamlet ?", "A man sleeps ."]).shape
    (2, 128)

    It opens runs of an encoder: masked language models, classifiers, and translation models, whose
    sources it encodes. `num_truncated` counts the texts longer than `data.row_length` tokens.
    """

    tasks = ("masked_lm", "classification", "token_classification", "translation")

    def __init__(
        self,
        config: Config,
        params: Params | None,
        labels: Labels,
        tokenizers: tuple[Tokenizer, ...],
    ) -> None:
        super().__init__(config, params, tokenizers, labels, jax.local_devices()[:1])
        self.tokenizer = tokenizers[0]
        self._is_translation = task_kind(config.task) == "translation"
        self._vectors = jax.jit(self._apply, static_argnums=2)

    @classmethod
    def _without_params(cls, restored: Restored) -> Self:
        return cls(restored.config, None, restored.labels, restored.tokenizers)

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
        vectors = np.zeros((len(texts), self.config.model.d_model), np.float32)
        for indices, batch in self._sentence_batches(self._ids(texts)):
            found = jax.device_get(self._vectors(self._params, batch, pooling))
            vectors[indices[indices >= 0]] = found[indices >= 0]
        return vectors

    def _ids(self, texts: Sequence[str]) -> Ragged:
        if self._is_translation:
            texts = [*map(Tags(self.config.data).put_on, texts)]
        return encode_texts(self.tokenizer, texts, self.config.model)

    def _apply(self, params: Params, batch: Batch, pooling: str) -> jax.Array:
        """Returns vectors [B, D]."""
        inputs: tuple[Any, ...] = (batch,)
        if self._is_translation:
            inputs = batch.inputs, batch.input_positions, batch.input_segments
        encode = partial(self.model.apply, deterministic=True, method="encode")
        encoded: Any = encode({"params": params}, *inputs)
        return pool(encoded, batch, pooling)[:, 0].astype(np.float32)
