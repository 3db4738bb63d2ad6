"""Labels each word of a text with a trained model."""

from collections.abc import Sequence
from typing import Any, Self

import jax
import numpy as np

from transformer.checkpoint.restore import Restored
from transformer.checkpoint.train_state import Params
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.data.labelled_words import encode_words
from transformer.data.labels import Labels
from transformer.data.tokenizer import check_texts
from transformer.data.tokenizer_files import Tokenizer
from transformer.inference.predictor import Predictor

NOT_SEEN = "?"  # the label of words behind the longest text that the model takes


class Tagger(Predictor):
    """Labels words with given parameters; `from_checkpoint` restores them.

    >>> Tagger.from_checkpoint("runs/entities").tag(["Paris sleeps ."])
    [['B-PLACE', 'O', 'O']]

    `num_truncated` counts the texts that were longer than `data.row_length` tokens.
    """

    tasks = ("token_classification",)

    def __init__(
        self, config: Config, params: Params | None, labels: Labels, tokenizer: Tokenizer
    ) -> None:
        super().__init__(config, params, (tokenizer,), labels, jax.local_devices()[:1])
        self.labels, self.tokenizer = labels, tokenizer
        self._classes = jax.jit(self._apply)

    @classmethod
    def _without_params(cls, restored: Restored) -> Self:
        return cls(restored.config, None, restored.labels, restored.tokenizers[0])

    def _facts(self) -> list[str]:
        return [f"{len(self.labels.names)} labels"]

    def tag(self, texts: Sequence[str]) -> list[list[str]]:
        """Returns the label of each word of each text, in order; words are divided by white space.

        Words behind `data.row_length` tokens get the label "?", and the text is counted in
        `num_truncated`. Raises ValueError for a single str.
        """
        check_texts(texts, "tag")
        source, firsts = encode_words(self.tokenizer, texts, self.config.model)
        found: list[list[str]] = [[] for _ in texts]
        for indices, batch in self._sentence_batches(source):
            classes = jax.device_get(self._classes(self._params, batch))
            for row in np.flatnonzero(indices >= 0):
                index, num_seen = indices[row], batch.input_segments[row].sum() - 1  # without EOS
                places = firsts[index]
                names = [self.labels.names[n] for n in classes[row][places[places < num_seen]]]
                found[index] = names + [NOT_SEEN] * (len(places) - len(names))
        return found

    def _apply(self, params: Params, batch: Batch) -> jax.Array:
        """Returns the class of each position, [B, S]."""
        logits: Any = self.model.apply({"params": params}, batch, deterministic=True)
        return logits.argmax(-1)
