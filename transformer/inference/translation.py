"""A translation: its text, its scores, its word alignment, and the one to choose of several."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from transformer.data.tokenizers.files import Tokenizer
from transformer.search.decoding import Hypotheses

SEPARATORS = re.compile(r"[\t\n\r]")  # between the fields and lines of the text formats
Alignment = list[tuple[int, int]]  # (source word, target word), both from 0
ORDER, BETA = 6, 2  # of chrF2, as sacrebleu counts it


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
    alignment: Alignment | None = field(default=None, repr=False)
    is_cut: bool = field(default=False, repr=False)

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
    best = []
    for ids, log_prob, score in rows[:nbest]:
        if score > -np.inf:
            text, length = tokenizer.decode(ids), np.argmax(ids == tokenizer.special.eos) + 1
            best.append(Translation(text, float(score), float(log_prob), ids[:length].tolist()))
    return best


def least_risk(candidates: Sequence[Translation], *, are_samples: bool) -> Translation:
    """Returns the candidate with the largest expected chrF2 against all: minimum Bayes risk.

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
        ngrams = [[text[i : i + n] for i in range(len(text) - n + 1)] for text in unspaced]
        every, columns = np.unique([*chain(*ngrams)], return_inverse=True)
        counts = np.zeros((len(texts), len(every)), np.int32)
        np.add.at(counts, (np.repeat(range(len(texts)), [*map(len, ngrams)]), columns), 1)
        totals = counts.sum(1)
        matches = np.stack([np.minimum(row, counts).sum(1) for row in counts])
        precision += matches / np.maximum(totals, 1)[:, None]
        recall += matches / np.maximum(totals, 1)
        orders += np.minimum(totals, totals[:, None]) > 0
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    either = np.maximum(BETA**2 * precision + recall, 1e-12)
    return 100 * (1 + BETA**2) * precision * recall / either


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

    So Garg et al. (2019) align words by the attention of a decoder.

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


# ---- lines of a file


def to_json(record: dict[str, Any]) -> str:
    """Returns a record as one line of JSON."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def format_rows(
    number: int,
    source: str,
    best: Sequence[Translation],
    *,
    nbest: int = 0,
    scores: bool = False,
    jsonl: bool = False,
    alignments: bool = False,
    score: bool = False,
) -> Iterator[str]:
    """Yields the lines of a file for a sentence; nothing in a translation can break one.

    number: of the line, from 0. best: its n-best list; if `score`, the given target alone. The
    others are those of `file_job.translate_file`.
    """
    first, text = best[0], SEPARATORS.sub(" ", best[0].text)
    if jsonl and score:
        pieces = {"pieces": len(first.ids)}
        yield to_json({"source": source, "target": first.text, **_numbers(first), **pieces})
    elif jsonl:
        translations = [{"text": one.text, **_numbers(one)} for one in best]
        yield to_json({"source": source, "translations": translations})
    elif alignments:
        yield f"{text}\t{pharaoh(first.alignment or [])}"
    elif score:
        yield f"{first.log_prob:.6f}\t{first.score:.6f}"
    elif nbest:
        for one in best:
            yield f"{number}\t{SEPARATORS.sub(' ', one.text)}\t{one.score:.6f}"
    else:
        yield f"{text}\t{first.score:.6f}" if scores else text


def _numbers(translation: Translation) -> dict[str, Any]:
    """Returns the scores to six digits, None for infinity and NaN, and the alignment if any."""
    numbers = {"score": translation.score, "log_prob": translation.log_prob}
    rounded = {k: round(float(x), 6) if math.isfinite(x) else None for k, x in numbers.items()}
    aligned = translation.alignment
    return rounded if aligned is None else rounded | {"alignment": pharaoh(aligned)}
