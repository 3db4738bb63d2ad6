"""What all batches share: they depend on the seed and the step alone, and have one static shape."""

import numpy as np
import pytest

from transformer.data.rows import epoch_plan
from transformer.data.rows.bpe_dropout import SubwordDropout
from transformer.data.rows.images import ImageBatches
from transformer.data.rows.lm_batches import Windows
from transformer.data.rows.masked_batches import MaskedBatches
from transformer.data.rows.packing import PackedBatches
from transformer.data.rows.ragged import Ragged
from transformer.data.tokenizers.sentencepiece import SentencePieceTokenizer

TEXT = [f"{i} the cat of my neighbours sleeps upon the mattress"[: 20 + i % 30] for i in range(200)]
TOKENIZER = SentencePieceTokenizer.train(TEXT, 340)
IDS = Ragged.encode(TOKENIZER, TEXT)


@pytest.fixture(autouse=True)
def several_blocks(monkeypatch):
    """Those of `epoch_plan`, of which the others are planned apart."""
    monkeypatch.setattr(epoch_plan, "BLOCK_PAIRS", 120)
    monkeypatch.setattr(epoch_plan, "SAMPLE_PAIRS", 100)


def packed(seed, num=200, **options):
    sides, rows = [IDS.take(np.arange(num))] * 2, dict(row_length=64, rows_per_batch=8)
    return PackedBatches(*sides, **rows, seed=seed, **options)


def with_dropout(seed):
    dropout = SubwordDropout([TOKENIZER] * 2, 0.2, [IDS] * 2, seed)
    return packed(seed, subword_dropout=dropout)


def images(seed, num=50, **changes):
    pixels = np.random.default_rng(0).random((num, 4, 4, 2), np.float32)
    classes = np.arange(num, dtype=np.int32)
    return ImageBatches(pixels, classes, patch_size=2, rows_per_batch=8, seed=seed, **changes)


BATCHES = {
    "packed": packed,
    "one pair": lambda seed: packed(seed, 1),
    "subword dropout": with_dropout,
    "masked": lambda seed: MaskedBatches(packed(0), rate=0.3, vocab_size=300, seed=seed),
    "windows": lambda seed: Windows(IDS.flat, start=2, length=10, rows_per_batch=4, seed=seed),
    "images": images,
    "one image": lambda seed: images(seed, 1),
    "changed images": lambda seed: images(seed, flip=True, crop_padding=1),
}


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES)
def test_a_batch_is_a_function_of_seed_and_step_and_has_one_shape(make):
    """Catches state, as a resumed run must see the batches of the uninterrupted one; and a last
    batch of another shape or type, which would cost a compile."""
    batches, fresh = make(0), make(0)
    steps = range(2 * batches.batches_per_epoch + 1)
    in_order = [batches[step] for step in steps]
    assert all(equal(fresh[step], in_order[step]) for step in reversed(steps))
    assert len({tuple((a.shape, a.dtype) for a in batch) for batch in in_order}) == 1
    assert {array.dtype.itemsize for batch in in_order for array in batch} == {4}
    assert not any(np.shares_memory(a, b) for a, b in zip(batches[0], batches[0], strict=True))


@pytest.mark.parametrize("name", [name for name in BATCHES if "one" not in name])
def test_epochs_and_seeds_differ(name):
    """Catches the same order, the same pieces or the same changes in every epoch or run."""
    make = BATCHES[name]
    batches, num = make(0), make(0).batches_per_epoch
    found = [batches[0], batches[num], make(1)[0], batches[1]]
    assert not any(equal(a, b) for i, a in enumerate(found) for b in found[:i])


@pytest.mark.parametrize("name", ["packed", "subword dropout", "masked"])
def test_a_host_makes_its_rows_alone(name):
    """Catches rows of one host that are not those of the whole batch, or all rows on every host."""
    batches = BATCHES[name](0)
    for step in range(3):
        whole, first, last = batches[step], batches.part(step, 0, 5), batches.part(step, 5, 8)
        for everything, upper, lower in zip(whole, first, last, strict=True):
            assert np.array_equal(upper[:5], everything[:5]) and not upper[5:].any()
            assert np.array_equal(lower[5:], everything[5:]) and not lower[:5].any()
    assert not batches.part(0, 8, 8).inputs.any()
