"""Word alignments from the attention of a decoder to the source (Garg et al. 2019)."""

from collections.abc import Sequence

import numpy as np

from transformer.data.tokenizer import Tokenizer

Alignment = list[tuple[int, int]]  # (source word, target word), both from 0


def default_layer(num_layers: int) -> int:
    """Returns the last decoder layer but one, as Garg et al. take of six; of two the last.

    Of two, the last one makes half as many errors (docs/translating_files.md).
    """
    return num_layers - 2 if num_layers > 2 else num_layers - 1


def word_numbers(tokenizer: Tokenizer, ids: Sequence[int], num_tags: int = 0) -> np.ndarray:
    """Returns which word, split at spaces, each token belongs to; below 0: to none.

    num_tags: words at the beginning that do not count. The tokens ▁a ▁hor se EOS have 0 1 1 -1.
    """
    words = [len(tokenizer.decode(ids[: end + 1]).split()) for end in range(len(ids) - 1)]
    return np.array([*words, 0]) - 1 - num_tags


def align_words(weights: np.ndarray, source: np.ndarray, target: np.ndarray) -> Alignment:
    """Returns the pairs of words of which a token of the target attends most to one of the source.

    weights: [T, S] or padded behind; source [S], target [T]: as `word_numbers` returns them.
    """
    best = np.where(source >= 0, weights[:, : len(source)], -1.0).argmax(1)
    pairs = zip(source[best].tolist(), target.tolist(), strict=True)
    return sorted({(s, t) for s, t in pairs if s >= 0 and t >= 0})


def pharaoh(alignment: Alignment) -> str:
    """Returns an alignment as other programs write it.

    >>> pharaoh([(0, 0), (2, 1)])
    '0-0 2-1'
    """
    return " ".join(f"{source}-{target}" for source, target in alignment)
