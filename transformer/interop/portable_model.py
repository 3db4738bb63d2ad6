"""A model of another system, as every reader of this package returns it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from transformer.config import Config
from transformer.data.files.labels import Labels
from transformer.data.tokenizers.files import Tokenizer
from transformer.data.tokenizers.lists import PieceListTokenizer

# By model.embedding_sharing: the module whose table is the softmax's.
SOFTMAX = {"all": "shared_embedding", "target": "target_embedding", "none": "softmax"}
FlatParams = dict[str, np.ndarray]  # "encoder/layer_0/self_attention/query/kernel": float32


class Vocabulary(NamedTuple):
    """The tokenizers of a translation model; languages: their names, "" where nothing says them."""

    tokenizers: tuple[PieceListTokenizer, PieceListTokenizer]
    languages: tuple[str, str]
    notes: list[str]


@dataclass
class PortableModel:
    """What a work directory holds.

    tokenizers: (source, target), the same twice if there is one; () for images.
    labels: the names of a classifier's classes; no names for other tasks.
    notes: what the conversion changed, a sentence each, to be shown to the user.
    """

    config: Config
    params: FlatParams
    tokenizers: tuple[Tokenizer, ...] = ()
    labels: Labels = field(default_factory=lambda: Labels([]))
    notes: list[str] = field(default_factory=list)
