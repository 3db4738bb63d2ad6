"""next_sentence.py: pairs that follow each other in a document, and pairs that do not."""

from typing import NamedTuple

import numpy as np
import pytest

from transformer.data.rows.masked_batches import MaskedBatches
from transformer.data.rows.next_sentence import IS_NEXT, IS_OTHER, make_sentence_pairs
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL

# A word says its document and its place there, so that a pair can be checked by its words alone.
RNG = np.random.default_rng(3)
DOCUMENTS = [[f"{d}.{p}" for p in range(RNG.integers(8, 80))] for d in range(60)]


def lines_of(document):
    """Words in sentences of 1 to 8."""
    while document:
        size = int(RNG.integers(1, 9))
        yield " ".join(document[:size])
        document = document[size:]


LINES = [line for document in DOCUMENTS for line in (*lines_of(document), "", " ")]
TOKENIZER = PiecesTokenizer.train(LINES, "")


class Pairs(NamedTuple):
    source: Ragged
    targets: Ragged
    num_cut: int


def pairs(length=32, seed=0):
    return Pairs(*make_sentence_pairs(TOKENIZER, LINES, length=length, seed=seed))


def sides(ids):
    """The (document, place) of each word of the two texts."""
    assert ids[0] == BOS and ids[-1] == EOS
    middle = ids.tolist().index(EOS)
    texts = (TOKENIZER.decode(part).split() for part in (ids[1:middle], ids[middle + 1 :]))
    return [[tuple(map(int, word.split("."))) for word in words] for words in texts]


def test_pairs_are_what_their_labels_say():
    """Catches a next text of another document, a gap, and "others" of the same document."""
    found = pairs()
    labels = found.targets.flat[found.targets.starts]
    assert set(labels.tolist()) == {IS_NEXT, IS_OTHER} and 0.3 < labels.mean() < 0.7
    for index, label in enumerate(labels):
        first, second = sides(found.source[index])
        assert first and second and len(found.source[index]) <= 32
        for text in (first, second):  # in order, from one document
            assert text == [(text[0][0], text[0][1] + n) for n in range(len(text))]
        if label == IS_OTHER:
            assert first[0][0] != second[0][0]
        else:
            assert first[0][0] == second[0][0] and first[-1] < second[0]
            was_cut = len(found.source[index]) == 32
            assert was_cut or second[0][1] == first[-1][1] + 1


def test_no_sentence_is_lost_but_what_is_counted():
    """Catches sentences that a random second text replaces for good."""
    found = pairs(length=10_000)
    assert not found.num_cut
    shown = {
        word for n in range(len(found.source)) for side in sides(found.source[n]) for word in side
    }
    assert shown == {(d, p) for d, words in enumerate(DOCUMENTS) for p in range(len(words))}
    short = pairs(length=12)
    assert short.num_cut > 0 and short.source.lengths.max() == 12


def test_pairs_depend_on_the_seed_alone():
    """Catches a resumed run that reads other pairs."""
    np.testing.assert_array_equal(pairs().source.flat, pairs().source.flat)
    assert not np.array_equal(pairs().source.flat, pairs(seed=1).source.flat)
    with pytest.raises(ValueError, match="needs two documents at least"):
        make_sentence_pairs(TOKENIZER, ["1.1", "1.2"], length=32, seed=0)


def test_labels_survive_packing_and_masking():
    """Catches a label that is masked, counted as a token, or moved to another pair of a row."""
    found = pairs()
    packed = PackedBatches(found.source, found.targets, row_length=96, rows_per_batch=4, seed=0)
    batches = MaskedBatches(packed, rate=0.5, vocab_size=TOKENIZER.vocab_size, seed=0)
    label_of = {tuple(found.source[n][1:]): found.targets[n][0] for n in range(len(found.source))}
    count = 0
    for step in range(batches.batches_per_epoch):
        batch, whole = batches[step], packed[step]
        begins = (batch.input_positions == 0) & (batch.input_segments != 0)
        assert (batch.inputs[begins] == BOS).all()
        assert not begins[np.nonzero(batch.weights)[0], batch.columns[batch.weights != 0]].any()
        assert (batch.targets[batch.weights != 0] >= NUM_SPECIAL).all()
        for row, column in zip(*np.nonzero(begins), strict=True):
            inside = whole.input_segments[row] == whole.input_segments[row, column]
            ids = tuple(whole.inputs[row][inside][1:])
            assert label_of[ids] == batch.pair_labels[row, column]
            count += 1
    assert count == len(found.source)
