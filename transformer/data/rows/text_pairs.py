"""Single texts and pairs of texts as the ids that an encoder reads.

A model with token types (`model.token_types`) reads them as BERT does; our BOS stands for [CLS] and
our EOS for [SEP]. A tab separates the two texts of a pair.
"""

from collections.abc import Sequence

import numpy as np

from transformer.config import ModelConfig
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer
from transformer.special_tokens import BOS, EOS


def sides(texts: Sequence[str], model: ModelConfig) -> Sequence[str]:
    """Returns the texts one by one: with token types, both of every pair."""
    return [side for text in texts for side in text.split("\t", 1)] if model.token_types else texts


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], model: ModelConfig) -> Ragged:
    """Returns the ids of each text, or of each pair if the model has token types.

    With BOS = 1 and EOS = 2 the text "a b" and the pair "a<tab>c" become

        without token types    5 6 2      5 9 7 2   (9: a tab, if the tokenizer has an id for it)
        with                   1 5 6 2    1 5 2 7 2
    """
    encoded = Ragged.encode(tokenizer, sides(texts, model))
    if not model.token_types:
        return encoded
    ids = encoded.flat[encoded.flat != BOS]  # which some tokenizers put before every text
    last_sides = np.cumsum([1 + ("\t" in text) for text in texts], dtype=np.int64) - 1
    ends = np.flatnonzero(ids == EOS)[last_sides] + 1
    starts = np.concatenate([[0], ends])[:-1].astype(np.int64)
    lengths = ends - starts + 1
    return Ragged(np.insert(ids, starts, BOS), np.cumsum(lengths) - lengths, lengths)
