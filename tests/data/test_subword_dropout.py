"""Subword dropout: other pieces for the same sentences, in rows that hold them."""

import numpy as np
import pytest

from transformer.data.rows.bpe_dropout import SubwordDropout, have_room
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.characters_and_pieces import CharacterTokenizer
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer

SENTENCE = "the cat of my neighbours sleeps upon an overwhelmingly comfortable mattress"


def make_texts(num_sentences, seed):
    rng = np.random.default_rng(seed)
    return [
        f"{i} " + " ".join(rng.choice(SENTENCE.split(), rng.integers(2, 12)))
        for i in range(num_sentences)
    ]


SOURCES, TARGETS = make_texts(150, 0), make_texts(150, 1)


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(SOURCES + TARGETS, 340)


def batches_of(tokenizer, rate=0.2, seed=0, texts=(SOURCES, TARGETS), **options):
    sides = [Ragged.encode(tokenizer, side) for side in texts]
    dropout = SubwordDropout([tokenizer] * 2, rate, sides, seed) if rate else None
    options = dict(row_length=64, rows_per_batch=8, seed=seed, subword_dropout=dropout) | options
    return PackedBatches(*sides, **options)


def sentences_of(batch):
    """[(source ids, target ids)] of a batch."""
    return [
        tuple(
            ids[row][segments[row] == number].tolist()
            for ids, segments in (
                (batch.inputs, batch.input_segments),
                (batch.targets, batch.target_segments),
            )
        )
        for row in range(len(batch.inputs))
        for number in range(1, batch.input_segments[row].max() + 1)
    ]


def epoch_of(batches, epoch):
    n = batches.batches_per_epoch
    return [
        pair for step in range(epoch * n, epoch * n + n) for pair in sentences_of(batches[step])
    ]


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_every_epoch_shows_every_pair_in_other_pieces(tokenizer):
    """Catches pairs that are cut, lost or altered, and draws that repeat from epoch to epoch."""
    batches, seen = batches_of(tokenizer), []
    for epoch in range(3):
        pairs = epoch_of(batches, epoch)
        texts = sorted(tuple(map(tokenizer.decode, pair)) for pair in pairs)
        assert texts == sorted(zip(SOURCES, TARGETS, strict=True))
        seen.append({(tokenizer.decode(source), *source, *target) for source, target in pairs})
    best = {
        (text, *ids, *target)
        for text, ids, target in zip(
            SOURCES, tokenizer.encode(SOURCES), tokenizer.encode(TARGETS), strict=True
        )
    }
    for one, other in ((0, 1), (1, 2), (0, 2)):
        assert len(seen[one] & seen[other]) < 30
    assert all(len(best & epoch) < 30 for epoch in seen)


def test_both_sides_are_drawn_apart(tokenizer):
    """Catches the same random numbers for source and target."""
    batches = batches_of(tokenizer, texts=(TARGETS, TARGETS))
    pairs = epoch_of(batches, 0)
    assert sum(source == target for source, target in pairs) < 30


def test_a_batch_is_a_function_of_seed_and_step(tokenizer):
    """Catches state: a resumed run must see the pieces of the uninterrupted one."""
    batches = batches_of(tokenizer)
    in_order = [batches[step] for step in range(6)]
    resumed = batches_of(tokenizer)
    assert all(equal(resumed[step], in_order[step]) for step in (5, 3, 4, 0))
    assert not equal(batches_of(tokenizer, seed=1)[0], in_order[0])


def test_two_hosts_make_the_batch_of_one(tokenizer):
    """Catches pieces that depend on which rows a host makes; the last host may have none."""
    batches = batches_of(tokenizer)
    for step in range(3):
        whole, first, last = batches[step], batches.part(step, 0, 3), batches.part(step, 3, 8)
        for everything, upper, lower in zip(whole, first, last, strict=True):
            assert np.array_equal(upper[:3], everything[:3]) and not upper[3:].any()
            assert np.array_equal(lower[3:], everything[3:]) and not lower[:3].any()
    assert not batches.part(0, 8, 8).inputs.any()


def test_a_rate_that_drops_nothing_changes_nothing(tokenizer):
    """Catches a plan or an order of sentences that is another one, but for what dropout needs."""
    plain, batches = batches_of(tokenizer, rate=0), batches_of(tokenizer, rate=1e-12)
    assert batches.subword_dropout.growth == [1, 1] and batches.undropped_share(9) == 0
    assert batches.shape == plain.shape and batches.batches_per_epoch == plain.batches_per_epoch
    assert all(equal(batches[step], plain[step]) for step in range(4))


def test_rows_are_planned_for_longer_sentences(tokenizer):
    """Catches rows so full that most of the pairs go back to their best segmentation."""
    batches = batches_of(tokenizer, row_length=128)
    assert min(batches.subword_dropout.growth) > 1.1
    assert 0 < batches.undropped_share(batches.batches_per_epoch) < 0.2
    assert batches.fill(batches.batches_per_epoch) > 0.75


def test_a_row_without_room_gets_the_best_segmentations(tokenizer):
    """Catches rows that overflow, as those of sentences that are as long as a row."""
    plain = batches_of(tokenizer, rate=0)
    longest = int(max(side.lengths.max() for side in (plain.source, plain.target)))
    batches = batches_of(tokenizer, rate=0.9, row_length=longest)
    assert len(epoch_of(batches, 0)) == len(SOURCES)
    assert 0.01 < batches.undropped_share() < 1


def test_the_sentences_that_have_room():
    """Catches a room that is shared with another row; the docstring's example."""
    best, drawn = np.array([2, 1, 1, 1, 5]), np.array([4, 1, 3, 2, 8])
    keys, row = np.array([0, 10, 30, 20, 5], np.uint64), np.array([0, 0, 0, 0, 1])
    assert have_room(best, drawn, row, 8, keys).tolist() == [True, True, False, True, True]
    assert have_room(best, drawn, row, 10, keys).all()


def test_lengths_to_plan_with(tokenizer):
    """Catches a pair that would be left out as its sentence might grow beyond the row."""
    dropout, side = batches_of(tokenizer).subword_dropout, Ragged.from_lists([[5] * 4, [5] * 9])
    dropout.growth = [1.2, 3.0]
    side.lengths = np.array([4, 9, 11], np.uint16)
    planned = dropout.planned_lengths((side, side), (10, 5))
    assert [lengths.tolist() for lengths in planned] == [[5, 10, 11], [5, 9, 11]]
    assert planned[0].dtype == np.uint16


def test_other_tokenizers_are_refused(tokenizer):
    """Catches characters that are "segmented" in silence."""
    with pytest.raises(ValueError, match=r"needs SentencePiece on both sides.*CharacterTokenizer"):
        SubwordDropout([tokenizer, CharacterTokenizer("ab")], 0.1, [], 0)
