"""Pairs of consecutive pieces of documents, and pairs that are not, for BERT's pre-training."""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import Tokenizer, strip_control_ids
from transformer.special_tokens import BOS, EOS

IS_NEXT, IS_OTHER = 0, 1  # in BERT's order
Sentences = list[list[int]]


def make_sentence_pairs(
    tokenizer: Tokenizer, lines: Sequence[str], *, length: int, seed: int
) -> tuple[Ragged, Ragged, int]:
    """Returns (pairs as [CLS] first [SEP] second [SEP], their targets, number of ids cut off).

    The targets are the same ids, but IS_NEXT or IS_OTHER in the place of [CLS], which is never
    masked. They are of at most `length` ids (Devlin et al. 2019, section 3.1 and appendix A.2).
    lines: a sentence each; an empty one ends a document. Sentences of a document are gathered until
    they fill a pair, and divided at random. With probability 1/2, and where only one is left, the
    second text is a random piece of another document, and what it replaces begins the next pair.
    The longer text is cut where both are too long. The pairs are drawn once, not anew in each
    epoch. Raises ValueError if there are fewer than two documents.
    """
    documents: list[Sentences] = [[]]
    for line, ids in zip(lines, tokenizer.encode(lines), strict=True):
        if line.strip():
            documents[-1].append(strip_control_ids(ids))
        else:
            documents.append([])
    documents = [document for document in documents if document]
    if len(documents) < 2:
        raise ValueError(
            "model.next_sentence needs two documents at least: divide them by empty lines."
        )
    rows, labels, num_cut = [], [], 0
    for first, second, label in _pairs(documents, length - 3, seed):
        excess = max(0, len(first) + len(second) - (length - 3))
        for _ in range(excess):
            (first if len(first) > len(second) else second).pop()
        rows.append([BOS, *first, EOS, *second, EOS])
        labels.append(label)
        num_cut += excess
    source = Ragged.from_lists(rows)
    targets = source.flat.copy()
    targets[source.starts[np.arange(len(source))]] = labels
    return source, Ragged(targets, source.starts, source.lengths), num_cut


def _pairs(
    documents: Sequence[Sentences], num_ids: int, seed: int
) -> Iterator[tuple[list[int], list[int], int]]:
    """Yields (ids of the first text, ids of the second, IS_NEXT or IS_OTHER)."""
    rng = np.random.default_rng(seed)
    for number, document in enumerate(documents):
        start = 0
        while start < len(document):
            stop = _end_of(document, start, num_ids)
            middle = start + int(rng.integers(1, max(2, stop - start)))
            first = [*chain.from_iterable(document[start:middle])]
            if middle < stop and rng.random() < 0.5:
                yield first, [*chain.from_iterable(document[middle:stop])], IS_NEXT
                start = stop
                continue
            other = documents[(number + int(rng.integers(1, len(documents)))) % len(documents)]
            place = int(rng.integers(len(other)))
            end = _end_of(other, place, num_ids - len(first))
            yield first, [*chain.from_iterable(other[place:end])], IS_OTHER
            start = middle


def _end_of(document: Sentences, start: int, num_ids: int) -> int:
    """Returns the end of the fewest sentences from `start` on with `num_ids` ids; one at least.

    >>> _end_of([[4], [5, 6], [7]], 0, 2), _end_of([[4], [5, 6], [7]], 2, 9)
    (2, 3)
    """
    stop, total = start + 1, len(document[start])
    while stop < len(document) and total < num_ids:
        total += len(document[stop])
        stop += 1
    return stop
