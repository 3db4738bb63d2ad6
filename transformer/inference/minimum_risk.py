"""Minimum Bayes risk decoding: the candidate that is most similar to all candidates."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from transformer.inference.translation import Translation

ORDER, BETA = 6, 2  # of chrF2, as sacrebleu counts it


def least_risk(candidates: Sequence[Translation], *, are_samples: bool) -> Translation:
    """Returns the candidate with the largest expected chrF2 against all of them.

    It is expected over samples, all of equal weight (Eikema and Aziz 2020), or over an n-best list,
    in proportion to the probabilities of its entries (Kumar and Byrne 2004).
    """
    log_probs = np.array([0.0 if are_samples else c.log_prob for c in candidates])
    utilities = pairwise_chrf([c.text for c in candidates]) @ np.exp(log_probs - log_probs.max())
    return candidates[int(np.argmax(utilities))]


def pairwise_chrf(texts: Sequence[str]) -> np.ndarray:
    """Returns the sentence chrF2 in percent [N, N]; row i: text i against each as its reference.

    Of "ab" against "abc", all of 2 characters and 1 pair are found: precisions 1 and 1, recalls 2/3
    and 1/2. With P = 1 and R = 7/12, their means, it is 100 · 5PR / (4P + R) = 63.6.
    """
    unspaced = ["".join(text.split()) for text in texts]
    precision, recall, orders = np.zeros((3, len(texts), len(texts)))
    for n in range(1, ORDER + 1):
        counts = _count_ngrams(unspaced, n)
        totals = counts.sum(1)
        matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
        precision += matches / np.maximum(totals, 1)[:, None]
        recall += matches / np.maximum(totals, 1)
        orders += np.minimum(totals, totals[:, None]) > 0
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    either = np.maximum(BETA**2 * precision + recall, 1e-12)
    return 100 * (1 + BETA**2) * precision * recall / either


def _count_ngrams(texts: Sequence[str], n: int) -> np.ndarray:
    """Returns how often each text has each n-gram of any of them, [texts, n-grams]."""
    counters = [Counter(text[i : i + n] for i in range(len(text) - n + 1)) for text in texts]
    column = {ngram: number for number, ngram in enumerate(set().union(*counters))}
    counts = np.zeros((len(texts), len(column)), np.int32)
    for row, counter in zip(counts, counters, strict=True):
        row[[column[ngram] for ngram in counter]] = list(counter.values())
    return counts
