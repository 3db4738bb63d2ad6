"""masked_batches.py: what a masked language model sees and guesses; the rows it is cut into."""

import numpy as np
import pytest

from tests.helpers.control_ids import BOS, EOS, PAD
from transformer.config import Config
from transformer.data.rows import masked_batches
from transformer.data.rows.masked_batches import (
    IS_NEXT,
    IS_OTHER,
    MaskedBatches,
    make_sentence_pairs,
    most_to_guess,
)
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.lists import PiecesTokenizer
from transformer.special_tokens import NUM_SPECIAL, OWN_IDS, SpecialIds
from transformer.tasks.masked_lm import MaskedLMTask

VOCAB_SIZE = 1000


def masked_rows(sentences, *, rows=8, rate=0.5, vocab_size=VOCAB_SIZE, seed=0, special=OWN_IDS):
    text = Ragged.from_lists(sentences)
    packed = PackedBatches(text, text, row_length=64, rows_per_batch=rows, seed=0)
    return MaskedBatches(packed, rate=rate, vocab_size=vocab_size, seed=seed, special=special)


def masked(rate=0.15):
    rng = np.random.default_rng(5)
    pieces = (rng.integers(NUM_SPECIAL, VOCAB_SIZE, n).tolist() for n in rng.integers(0, 30, 3000))
    return masked_rows(([*ids, EOS] for ids in pieces), rows=512, rate=rate)


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


@pytest.mark.parametrize("rate", [0.15, 0.9])
def test_pieces_alone_are_chosen_in_the_shares_of_the_paper(rate):
    """Catches 15% of padding too, and 80/10/10 drawn one after the other (80/2/18); a sentence
    whose end is hidden, a change with no guess, and segments lost to the attention of the encoder.
    """
    batches = masked(rate=rate)
    batch, packed = batches[0], batches.packed[0]
    chosen, ids = originals(batch)
    pieces = (ids != PAD) & (ids != EOS)
    assert pieces.sum() > 20_000 and not chosen[~pieces].any()
    assert np.array_equal(ids, packed.inputs)
    assert all(map(np.array_equal, batch[1:3], packed[1:3]))  # segments and positions
    assert_share(chosen.sum(), pieces.sum(), rate)
    hidden = chosen & (batch.inputs == OWN_IDS.mask)
    kept = chosen & (batch.inputs == ids)
    swapped = chosen & ~hidden & ~kept
    by_chance = 0.1 / (VOCAB_SIZE - NUM_SPECIAL)  # another piece that is the same one
    assert_share(hidden.sum(), chosen.sum(), 0.8)
    assert_share(kept.sum(), chosen.sum(), 0.1 + by_chance)
    assert_share(swapped.sum(), chosen.sum(), 0.1 - by_chance)
    others = batch.inputs[swapped]
    assert others.min() >= NUM_SPECIAL and others.max() < VOCAB_SIZE
    assert len(set(others.tolist())) > len(others) / 4  # no piece is drawn most of the time


def test_control_ids_are_those_of_the_vocabulary():
    """Catches [CLS] or [SEP] of BERT hidden, a control token shown in place of another one,
    and the same positions hidden in each batch."""
    special = SpecialIds(pad=0, bos=7, eos=8, unk=9, mask=10)
    batches = masked_rows([[7, *range(1, 7), 8]] * 2000, vocab_size=12, special=special)
    every = [batches[step] for step in range(20)]
    shown = {int(i) for batch in every for i in batch.inputs[originals(batch)[0]]}
    guessed = {int(i) for batch in every for i in batch.targets[batch.weights != 0]}
    assert len({batch.columns.tobytes() for batch in every}) == 20  # though all rows are alike
    assert shown == {*range(1, 7), 10, 11} and guessed == {*range(1, 7)}


def test_a_row_has_no_more_to_guess_than_its_batch_holds(monkeypatch):
    """Catches a token that is hidden and never counted, and any choice but the last left out."""
    assert [most_to_guess(128, 0.15), most_to_guess(512, 0.15)] == [40, 112]
    whole = masked()[0]
    assert whole.targets.shape == (512, most_to_guess(64, 0.15))
    monkeypatch.setattr(masked_batches, "most_to_guess", lambda length, rate: 8)
    cut = masked()[0]
    assert (whole.weights.sum(1) > 8).sum() > 50
    assert np.array_equal(cut.targets, whole.targets[:, :8])
    assert np.array_equal(cut.columns, whole.columns[:, :8])
    assert np.array_equal(originals(cut)[1], originals(whole)[1])


def test_an_epoch_of_a_text_shows_every_piece_once():
    """Catches a long line that is dropped, as a pair too long would be."""
    config = Config(task="masked_lm")
    config.data.row_length, config.training.batch_tokens = 8, 32
    lines = [" ".join(f"w{i}" for i in range(n)) for n in (3, 30, 1, 8, 7)]
    tokenizer = PiecesTokenizer.train(lines, "")
    batches = MaskedLMTask.make_batches(config, tokenizer, lines)
    shown = [originals(batches[step])[1] for step in range(batches.batches_per_epoch)]
    ids = np.sort(np.concatenate([row[row != PAD] for row in shown]))
    assert ids.tolist() == sorted(i for sentence in tokenizer.encode(lines) for i in sentence)
    assert {row.shape for row in shown} == {(4, 8)}


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


def pairs(length=32, seed=0):
    return make_sentence_pairs(TOKENIZER, LINES, length=length, seed=seed)


def sides(ids):
    """The (document, place) of each word of the two texts."""
    assert ids[0] == BOS and ids[-1] == EOS
    middle = ids.tolist().index(EOS)
    texts = (TOKENIZER.decode(part).split() for part in (ids[1:middle], ids[middle + 1 :]))
    return [[tuple(map(int, word.split("."))) for word in words] for words in texts]


def test_pairs_are_what_their_labels_say():
    """Catches a next text of another document, a gap, and "others" of the same document."""
    source, targets, _ = pairs()
    labels = targets.flat[targets.starts]
    assert set(labels.tolist()) == {IS_NEXT, IS_OTHER} and 0.3 < labels.mean() < 0.7
    for index, label in enumerate(labels):
        first, second = sides(source[index])
        assert first and second and len(source[index]) <= 32
        for text in (first, second):  # in order, from one document
            assert text == [(text[0][0], text[0][1] + n) for n in range(len(text))]
        assert (first[0][0] != second[0][0]) == (label == IS_OTHER)
        if label == IS_NEXT:
            was_cut = len(source[index]) == 32
            assert first[-1] < second[0] and (was_cut or second[0][1] == first[-1][1] + 1)


def test_no_sentence_is_lost_but_what_is_counted():
    """Catches sentences that a random second text replaces for good, and a resumed run that reads
    other pairs."""
    source, _, num_cut = pairs(length=10_000)
    shown = {word for n in range(len(source)) for side in sides(source[n]) for word in side}
    assert shown == {(d, p) for d, words in enumerate(DOCUMENTS) for p in range(len(words))}
    short, _, num_cut_short = pairs(length=12)
    assert num_cut == 0 < num_cut_short and short.lengths.max() == 12
    flat, again, other = (pairs(seed=seed)[0].flat for seed in (0, 0, 1))
    assert np.array_equal(flat, again) and not np.array_equal(flat, other)
    with pytest.raises(ValueError, match="needs two documents, divided by empty lines"):
        make_sentence_pairs(TOKENIZER, ["1.1", "1.2"], length=32, seed=0)


def test_labels_survive_packing_and_masking():
    """Catches a label that is masked, counted as a token, or moved to another pair of a row."""
    source, targets, _ = pairs()
    packed = PackedBatches(source, targets, row_length=96, rows_per_batch=4, seed=0)
    batches = MaskedBatches(packed, rate=0.5, vocab_size=TOKENIZER.vocab_size, seed=0)
    expected = sorted((source[n][1:].tolist(), targets[n][0]) for n in range(len(source)))
    shown = []
    for step in range(batches.batches_per_epoch):
        batch, whole = batches[step], packed[step]
        begins = (batch.input_positions == 0) & (batch.input_segments != 0)
        assert (batch.inputs[begins] == BOS).all() and not originals(batch)[0][begins].any()
        assert (batch.targets[batch.weights != 0] >= NUM_SPECIAL).all()
        for row, column in zip(*np.nonzero(begins), strict=True):
            inside = whole.input_segments[row] == whole.input_segments[row, column]
            shown.append((whole.inputs[row][inside][1:].tolist(), batch.pair_labels[row, column]))
    assert sorted(shown) == expected
