"""A translation: its text, its score and what the model computed for it."""

from dataclasses import dataclass, field

import numpy as np

from transformer.data.tokenizer_files import Tokenizer
from transformer.search.decoding import Hypotheses
from transformer.special_tokens import EOS


@dataclass
class Translation:
    """One translation of a sentence.

    log_prob: the log-probability of `ids` given the source, in nats; without that of the language
        with which all translations of some imported models begin.
    score: log_prob divided by the length penalty; n-best lists are in its order.
    ids: token ids, EOS included; empty for an empty source.
    attention: encoder-decoder attention weights [layers, N, T, S], if they were asked for.
    alignment: (source word, target word) pairs, if they were asked for.
    is_cut: whether the source was longer than `largest_bucket()`, and cut there.
    """

    text: str
    score: float
    log_prob: float
    ids: list[int] = field(default_factory=list, repr=False)
    attention: np.ndarray | None = field(default=None, repr=False)
    alignment: list[tuple[int, int]] | None = field(default=None, repr=False)
    is_cut: bool = field(default=False, repr=False)

    @property
    def num_pieces(self) -> int:
        """The number of target tokens, EOS included."""
        return len(self.ids)

    def __str__(self) -> str:
        return self.text


def best_translations(
    hypotheses: Hypotheses, nbest: int, tokenizer: Tokenizer
) -> list[Translation]:
    """Returns the `nbest` best hypotheses of a sentence, best first; fewer if fewer were found.

    hypotheses: ids [W, T], log_probs [W] and scores [W], -inf where there is none.
    """
    rows = [*zip(*hypotheses, strict=True)]
    rows.sort(key=lambda row: row[2], reverse=True)  # those of a beam are sorted, samples are not
    return [
        Translation(tokenizer.decode(ids), float(score), float(log_prob), _to_eos(ids))
        for ids, log_prob, score in rows[:nbest]
        if score > -np.inf
    ]


def _to_eos(ids: np.ndarray) -> list[int]:
    """Returns ids without the padding after EOS: [7, 5, 2, 0, 0] -> [7, 5, 2]."""
    return ids[: np.argmax(ids == EOS) + 1].tolist()
