"""Labels each word of a text with a trained model."""

from collections.abc import Sequence
from typing import Any

import jax

from transformer.checkpoint.train_state import Params
from transformer.data.batch import Batch
from transformer.data.labelled_words import encode_words
from transformer.data.tokenizer import check_texts
from transformer.inference.predictor import EncoderPredictor

NOT_SEEN = "?"  # the label of words behind the longest text that the model takes


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
        found: list[list[str]] = [[] for _ in texts]
        for index, classes in self._answers(self._sentence_batches(source)):
            places = firsts[index]
            num_seen = min(source.lengths[index], self.config.data.row_length) - 1  # without EOS
            names = [self.labels.names[n] for n in classes[places[places < num_seen]]]
            found[index] = names + [NOT_SEEN] * (len(places) - len(names))
        return found

    def _apply(self, params: Params, batch: Batch) -> jax.Array:
        """Returns the class of each position, [B, S]."""
        logits: Any = self.model.apply({"params": params}, batch, deterministic=True)
        return logits.argmax(-1)
