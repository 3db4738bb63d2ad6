"""lm_batches.py: what a masked language model sees and guesses; and the rows it is cut into."""

import numpy as np
import pytest

from transformer.config import Config
from transformer.data.lm_batches import MASK, MaskedBatches
from transformer.data.packing import PackedBatches
from transformer.data.ragged import Ragged
from transformer.data.simple_tokenizers import PiecesTokenizer
from transformer.special_tokens import BOS, EOS, NUM_SPECIAL, PAD
from transformer.tasks.masked_lm import make_masked_batches

VOCAB_SIZE = 1000


def masked(num_sentences=3000, *, rows=512, rate=0.15, seed=0):
    rng = np.random.default_rng(5)
    lengths = rng.integers(0, 30, num_sentences)
    text = Ragged.from_lists(
        [[*rng.integers(NUM_SPECIAL, VOCAB_SIZE, n).tolist(), EOS] for n in lengths]
    )
    packed = PackedBatches(text, text, row_length=64, rows_per_batch=rows, seed=seed)
    return MaskedBatches(packed, rate=rate, vocab_size=VOCAB_SIZE, seed=seed)


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def assert_share(count, total, share):
    """Within five standard deviations of a binomial: once in a million by chance."""
    assert abs(count - total * share) < 5 * np.sqrt(total * share * (1 - share)), count / total


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_the_shares_are_those_of_the_paper(rate):
    """Catches 15% of padding too, and 80/10/10 drawn one after the other (80/2/18)."""
    batch = masked(rate=rate)[0]
    pieces = (batch.targets != PAD) & (batch.targets != EOS)
    chosen = batch.target_segments != 0
    assert pieces.sum() > 20_000
    assert_share(chosen.sum(), pieces.sum(), rate)
    hidden = chosen & (batch.inputs == MASK)
    kept = chosen & (batch.inputs == batch.targets)
    swapped = chosen & ~hidden & ~kept
    by_chance = 0.1 / (VOCAB_SIZE - NUM_SPECIAL)  # another piece that is the same one
    assert_share(hidden.sum(), chosen.sum(), 0.8)
    assert_share(kept.sum(), chosen.sum(), 0.1 + by_chance)
    assert_share(swapped.sum(), chosen.sum(), 0.1 - by_chance)
    others = batch.inputs[swapped]
    assert others.min() >= NUM_SPECIAL and others.max() < VOCAB_SIZE
    assert len(set(others.tolist())) > len(others) / 4  # no piece is drawn most of the time


def test_only_pieces_are_chosen_and_only_chosen_ones_are_changed():
    """Catches a sentence whose end is hidden, a guess at padding, and a change with no guess."""
    batches = masked(rate=0.9)
    for step in range(batches.batches_per_epoch):
        batch = batches[step]
        chosen = batch.target_segments != 0
        assert chosen.any() and not chosen[(batch.targets == EOS) | (batch.targets == PAD)].any()
        assert np.array_equal(batch.inputs[~chosen], batch.targets[~chosen])
        assert np.array_equal(batch.weights, chosen)


def test_a_beginning_is_not_to_be_guessed():
    """Catches [CLS] of BERT hidden, which stands before every sentence."""
    text = Ragged.from_lists([[BOS, 7, EOS]] * 50)
    packed = PackedBatches(text, text, row_length=16, rows_per_batch=8, seed=0)
    batch = MaskedBatches(packed, rate=0.99, vocab_size=VOCAB_SIZE, seed=0)[0]
    assert set(batch.targets[batch.target_segments != 0].tolist()) == {7}
    assert (batch.inputs == BOS).sum() == (batch.targets == BOS).sum() > 0


def test_all_else_is_as_it_was_packed():
    """Catches targets that are masked too, and segments lost to the attention of the encoder."""
    batches = masked(300)
    for step in range(batches.batches_per_epoch):
        batch, packed = batches[step], batches.packed[step]
        chosen = batch.target_segments != 0
        assert np.array_equal(packed.inputs, packed.targets)
        assert np.array_equal(batch.target_segments[chosen], packed.target_segments[chosen])
        same = packed._replace(inputs=batch.inputs, target_segments=batch.target_segments)
        assert equal(batch, same) and {array.dtype for array in batch} == {np.dtype(np.int32)}


def test_a_batch_is_a_function_of_seed_and_step():
    """Catches state: a resumed run must see the batches of the uninterrupted one."""
    batches, fresh = masked(200, rows=4), masked(200, rows=4)
    steps = list(range(2 * batches.batches_per_epoch + 1))
    in_order = [batches[step] for step in steps]
    for step in reversed(steps):
        assert equal(fresh[step], in_order[step])


def test_steps_and_seeds_hide_other_pieces():
    """Catches the same positions in each batch or epoch: other pieces would never be guessed."""
    text = Ragged.from_lists(
        [[*range(NUM_SPECIAL, 60), EOS]]
    )  # one sentence: all batches are alike but here
    packed = PackedBatches(text, text, row_length=64, rows_per_batch=1, seed=0)
    make = [MaskedBatches(packed, rate=0.5, vocab_size=VOCAB_SIZE, seed=seed) for seed in (0, 1)]
    hidden = [tuple(make[0][step].weights[0]) for step in range(20)]
    assert len(set(hidden)) == 20
    assert tuple(make[1][0].weights[0]) != hidden[0]
    assert (np.sum(hidden, 0)[:56] > 0).all()  # each piece has its turn


@pytest.mark.parametrize("lengths", [[1], [8], [9], [3, 16, 17, 8, 1], [], [0, 5, 0, 20]])
def test_rows_keep_every_id_in_order(lengths):
    """Catches ids lost or shown twice where a long sentence is cut, and rows too long."""
    sentences = [list(range(10 * i + 4, 10 * i + 4 + n)) for i, n in enumerate(lengths)]
    rows = Ragged.from_lists(sentences).split_longer(8)
    pieces = [rows[i].tolist() for i in range(len(rows))]
    assert pieces == [s[at : at + 8] for s in sentences for at in range(0, len(s), 8)]


def test_an_epoch_of_a_text_shows_every_piece_once():
    """Catches a long line that is dropped, as a pair too long would be."""
    config = Config(task="masked_lm")
    config.data.row_length = 8
    lines = [" ".join(f"w{i}" for i in range(n)) for n in (3, 30, 1, 8, 7)]
    tokenizer = PiecesTokenizer.train(lines, "")
    batches = make_masked_batches(config, tokenizer, lines, 4)
    shown = [batches[step].targets for step in range(batches.batches_per_epoch)]
    ids = np.sort(np.concatenate([targets[targets != PAD] for targets in shown]))
    assert ids.tolist() == sorted(i for sentence in tokenizer.encode(lines) for i in sentence)
    assert {targets.shape for targets in shown} == {(4, 8)}
