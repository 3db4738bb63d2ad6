"""bpe_dropout.py: words in other pieces, as likely as in the paper's algorithm."""

from collections import Counter

import numpy as np
import pytest

from tests.helpers.control_ids import UNK
from tests.helpers.packed_pairs import epoch_of
from tests.helpers.sentencepiece_models import train_model
from transformer.data.rows.bpe_dropout import BpeDropout, SubwordDropout, random_keys
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.lists import CharacterTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer, read_spec

SENTENCE = "the cat of my neighbours sleeps upon an overwhelmingly comfortable mattress über Mäuse"


def make_texts(num_sentences, seed):
    rng = np.random.default_rng(seed)
    counts = enumerate(rng.integers(2, 12, num_sentences))
    return [f"{i} " + " ".join(rng.choice(SENTENCE.split(), count)) for i, count in counts]


SOURCES, TARGETS = make_texts(150, 0), make_texts(150, 1)
TEXT = SOURCES + TARGETS
PIECES = SentencePieceTokenizer.train(TEXT, 360)


def segmentations(pieces, score, rate):
    """{pieces at the end: probability} of Algorithm 1, by going through all that may be dropped."""
    merges = [i for i in range(len(pieces) - 1) if pieces[i] + pieces[i + 1] in score]
    merges.sort(key=lambda i: -score[pieces[i] + pieces[i + 1]])
    likely = Counter({tuple(pieces): rate ** len(merges)})  # all dropped
    for k, i in enumerate(merges):
        merged = [*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :]]
        for end, probability in segmentations(merged, score, rate).items():
            likely[end] += rate**k * (1 - rate) * probability
    return likely


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_segmentations_are_as_likely_as_in_the_paper(rate):
    """Catches merges in another order, at another rate, or dropped for good."""
    score = {p.piece: p.score for p in read_spec(PIECES.model).pieces if p.type == p.NORMAL}
    words, number = ["the", "cat", "über", "Mäuse", "mattress"], 8_000
    many = Ragged.from_lists(ids[:-1] for ids in PIECES.encode(words) for _ in range(number))
    segmented = BpeDropout(PIECES, rate)(many, random_keys((0,), (len(many),)))
    for nth, word in enumerate(words):
        expected = segmentations(list("▁" + word), score, rate)
        places = range(nth * number, nth * number + number)
        drawn = Counter(tuple(segmented[i].tolist()) for i in places)
        drawn = {tuple(PIECES.pieces(key)): count / number for key, count in drawn.items()}
        assert drawn.keys() <= expected.keys() and len(drawn) > 3
        for pieces, probability in expected.items():
            margin = 5 * np.sqrt(probability / number) + 5 / number
            assert abs(drawn.get(pieces, 0) - probability) < margin, (pieces, probability)


def test_what_bpe_does_not_merge_stays():
    """Catches tags that fall apart, and bytes or UNK that are lost or become other text."""
    tokenizer = SentencePieceTokenizer.train(TEXT, 400, tags=["<2de>"])
    sentences = Ragged.from_lists([[*tokenizer.encode(["<2de> cat 🙂 cat"])[0], UNK], [UNK]])
    segmented = BpeDropout(tokenizer, 0.5)(sentences, random_keys((1,), (2,)))
    assert segmented[0][0] == sentences[0][0] and tokenizer.pieces(segmented[0])[0] == "▁<2de>"
    assert segmented[0][-1] == UNK and segmented[1].tolist() == [UNK]
    assert tokenizer.decode(segmented[0][:-1]) == "<2de> cat 🙂 cat"


def test_pieces_may_go_beyond_spaces():
    """Catches words cut where a vocabulary has pieces such as "▁the▁cat"."""
    model = train_model(TEXT, 120, model_type="bpe", split_by_whitespace=False)
    tokenizer = SentencePieceTokenizer(model)
    sentences, keys = Ragged.encode(tokenizer, TEXT), random_keys((0,), (len(TEXT),))
    segmented = BpeDropout(tokenizer, 0.05)(sentences, keys)
    assert [tokenizer.decode(segmented[i]) for i in range(len(TEXT))] == TEXT
    assert any("▁" in piece[1:] for piece in tokenizer.pieces(segmented.flat))


def test_vocabularies_without_merges_are_refused():
    """Catches a unigram model that is segmented as if it were BPE, and characters in silence."""
    for tokenizer in (SentencePieceTokenizer(train_model(TEXT, 60)), CharacterTokenizer("ab")):
        with pytest.raises(ValueError, match=rf"{type(tokenizer).__name__}.*model_type=bpe\.$"):
            SubwordDropout([PIECES, tokenizer], 0.1, [], 0)


BEST = {*zip(*(map(tuple, PIECES.encode(side)) for side in (SOURCES, TARGETS)), strict=True)}


def batches_of(rate=0.2, texts=(SOURCES, TARGETS), row_length=64):
    sides = [Ragged.encode(PIECES, side) for side in texts]
    dropout = SubwordDropout([PIECES] * 2, rate, sides, 0) if rate else None
    rows = dict(row_length=row_length, rows_per_batch=8, seed=0)
    return PackedBatches(*sides, **rows, subword_dropout=dropout)


def pairs_of(batches, epoch=0):
    """{(source ids, target ids)}, of which each sentence has its number at the beginning."""
    pairs = epoch_of(batches, epoch)
    texts = sorted(tuple(map(PIECES.decode, pair)) for pair in pairs)
    assert texts == sorted(zip(SOURCES, TARGETS, strict=True))
    return {(tuple(source), tuple(target)) for source, target in pairs}


def test_lengths_to_plan_with():
    """Catches a pair that would be left out as its sentence might grow beyond the row."""
    dropout, lengths = batches_of().subword_dropout, np.array([4, 9, 11], np.uint16)
    dropout.growth = [1.2, 3.0]
    planned = dropout.planned_lengths((lengths, lengths), (10, 5))
    assert [side.tolist() for side in planned] == [[5, 10, 11], [5, 9, 11]]
    assert planned[0].dtype == np.uint16


def test_every_epoch_shows_every_pair_in_other_pieces():
    """Catches pairs that are cut, lost or altered, and the same random numbers in every epoch or
    on both sides."""
    shown = [BEST, *(pairs_of(batches_of(), epoch) for epoch in range(3))]
    assert all(len(a & b) < 30 for i, a in enumerate(shown) for b in shown[:i])
    pairs = epoch_of(batches_of(texts=(TARGETS, TARGETS)), 0)
    assert sum(source == target for source, target in pairs) < 30


def test_a_rate_that_drops_nothing_changes_nothing():
    """Catches a plan or an order of sentences that is another one, but for what dropout needs."""
    plain, batches = batches_of(rate=0), batches_of(rate=1e-12)
    assert batches.subword_dropout.growth == [1, 1]
    assert batches.shape == plain.shape and batches.batches_per_epoch == plain.batches_per_epoch
    for step in range(4):
        assert all(map(np.array_equal, batches[step], plain[step]))


def test_rows_have_room_for_other_segmentations_but_where_a_sentence_fills_one():
    """Catches rows so full that most pairs go back to their best segmentation, and rows that
    overflow, as those of sentences that are as long as a row."""
    batches = batches_of(row_length=128)
    assert min(batches.subword_dropout.growth) > 1.1
    assert len(pairs_of(batches) & BEST) < 30
    assert batches.fill(batches.batches_per_epoch) > 0.75
    longest = max(max(map(len, pair)) for pair in BEST)
    shown = pairs_of(batches_of(rate=0.9, row_length=longest))
    kept = sum(len({ids[side] for ids in shown} & {ids[side] for ids in BEST}) for side in (0, 1))
    assert 3 < kept < 300
