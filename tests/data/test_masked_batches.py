"""masked_batches.py: what a masked language model sees and guesses; the rows it is cut into."""

import numpy as np
import pytest

from transformer.config import Config
from transformer.data.rows import masked_batches
from transformer.data.rows.masked_batches import MASK, MaskedBatches, most_to_guess
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.characters_and_pieces import PiecesTokenizer
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


def originals(batch):
    """Returns (where tokens are to be guessed, the row as it was packed), each [B, S]."""
    is_chosen, ids = np.zeros(batch.inputs.shape, bool), batch.inputs.copy()
    rows, places = np.nonzero(batch.weights)
    columns = batch.columns[rows, places]
    is_chosen[rows, columns] = True
    assert is_chosen.sum() == batch.weights.sum()  # no column twice
    ids[rows, columns] = batch.targets[rows, places]
    return is_chosen, ids


def assert_share(count, total, share):
    """Within five standard deviations of a binomial: once in a million by chance."""
    assert abs(count - total * share) < 5 * np.sqrt(total * share * (1 - share)), count / total


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_the_shares_are_those_of_the_paper(rate):
    """Catches 15% of padding too, and 80/10/10 drawn one after the other (80/2/18)."""
    batch = masked(rate=rate)[0]
    chosen, ids = originals(batch)
    pieces = (ids != PAD) & (ids != EOS)
    assert pieces.sum() > 20_000
    assert_share(chosen.sum(), pieces.sum(), rate)
    hidden = chosen & (batch.inputs == MASK)
    kept = chosen & (batch.inputs == ids)
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
        chosen, ids = originals(batches[step])
        assert chosen.any() and not chosen[(ids == EOS) | (ids == PAD)].any()
        assert np.array_equal(ids, batches.packed[step].inputs)


def test_a_beginning_is_not_to_be_guessed():
    """Catches [CLS] of BERT hidden, which stands before every sentence."""
    text = Ragged.from_lists([[BOS, 7, EOS]] * 50)
    packed = PackedBatches(text, text, row_length=16, rows_per_batch=8, seed=0)
    batch = MaskedBatches(packed, rate=0.99, vocab_size=VOCAB_SIZE, seed=0)[0]
    assert set(batch.targets[batch.weights != 0].tolist()) == {7}
    assert (batch.inputs == BOS).sum() == (batch.pair_labels == BOS).sum() > 0


def test_all_else_is_as_it_was_packed():
    """Catches segments lost to the attention of the encoder, and rows of another host filled."""
    batches = masked(300)
    for step in range(batches.batches_per_epoch):
        batch, packed = batches[step], batches.packed[step]
        assert np.array_equal(batch.input_segments, packed.input_segments)
        assert np.array_equal(batch.input_positions, packed.input_positions)
        assert {array.dtype for array in batch} == {np.dtype(np.int32)}
        part = batches.part(step, 3, 7)
        assert all(np.array_equal(a[3:7], b[3:7]) for a, b in zip(part, batch, strict=True))
        assert part.weights.sum() == batch.weights[3:7].sum()


def test_a_row_has_no_more_to_guess_than_its_batch_holds(monkeypatch):
    """Catches a token that is hidden and never counted, and any choice but the last left out."""
    assert [most_to_guess(128, 0.15), most_to_guess(512, 0.15)] == [40, 112]
    whole = masked()[0]
    assert whole.targets.shape == (512, most_to_guess(64, 0.15))
    monkeypatch.setattr(masked_batches, "most_to_guess", lambda length, rate: 8)
    cut = masked()[0]
    is_full = whole.weights.sum(1) > 8
    assert is_full.sum() > 50
    assert np.array_equal(cut.targets, whole.targets[:, :8])
    assert np.array_equal(cut.columns, whole.columns[:, :8])
    assert np.array_equal(originals(cut)[1], originals(whole)[1])


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
    hidden = [tuple(originals(make[0][step])[0][0]) for step in range(20)]
    assert len(set(hidden)) == 20
    assert tuple(originals(make[1][0])[0][0]) != hidden[0]
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
    shown = [originals(batches[step])[1] for step in range(batches.batches_per_epoch)]
    ids = np.sort(np.concatenate([row[row != PAD] for row in shown]))
    assert ids.tolist() == sorted(i for sentence in tokenizer.encode(lines) for i in sentence)
    assert {row.shape for row in shown} == {(4, 8)}
