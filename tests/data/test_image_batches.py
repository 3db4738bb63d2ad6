"""images.py: every image once an epoch, in static shapes, by seed and step only."""

import numpy as np
import pytest

from transformer.data.rows.images import ImageBatches, fill_images


def batches_of(num_images, *, rows=8, seed=0):
    """Image i has pixels of i + 1, and the class i."""
    targets = np.arange(num_images, dtype=np.int32)
    patches = np.tile(np.float32(targets + 1)[:, None, None], (1, 4, 3))
    return ImageBatches(patches, targets, rows_per_batch=rows, seed=seed)


def images_of(batch):
    """The classes of the images of a batch; each must stand beside its own pixels."""
    is_image = batch.weights[:, 0] == 1
    targets = batch.targets[is_image, 0]
    assert (batch.patches[is_image] == (targets + 1)[:, None, None]).all()
    return targets.tolist()


def epoch_of(batches, epoch):
    n = batches.batches_per_epoch
    return [i for step in range(epoch * n, epoch * n + n) for i in images_of(batches[step])]


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("num_images", [1, 7, 8, 9, 100])
def test_every_image_once_an_epoch(num_images):
    """Catches images left out of a last batch, shown twice, or with another's class."""
    batches = batches_of(num_images)
    assert batches.batches_per_epoch == -(-num_images // 8)
    for epoch in (0, 1, 5):
        assert sorted(epoch_of(batches, epoch)) == list(range(num_images))


def test_epochs_and_seeds_differ_in_order():
    """Catches the same order every epoch, and the order of the file."""
    batches, other = batches_of(100), batches_of(100, seed=1)
    orders = [epoch_of(batches, 0), epoch_of(batches, 1), epoch_of(other, 0), list(range(100))]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])


def test_a_batch_is_a_function_of_seed_and_step():
    """Catches state: a resumed run must see the batches of the uninterrupted one."""
    batches = batches_of(50)
    steps = list(range(4 * batches.batches_per_epoch + 1))
    in_order = [batches[step] for step in steps]
    fresh = batches_of(50)
    for step in reversed(steps):
        assert equal(fresh[step], in_order[step])


@pytest.mark.parametrize("num_images", [1, 13, 16])
def test_one_static_shape(num_images):
    """Catches a last batch of another shape or type, which would cost a compile."""
    batches = batches_of(num_images)
    for step in range(2 * batches.batches_per_epoch):
        patches, targets, weights = batches[step]
        assert patches.shape == (8, 4, 3) and patches.dtype == np.float32
        assert targets.shape == weights.shape == (8, 1)
        assert targets.dtype == np.int32 and weights.dtype == np.float32


def test_the_last_rows_are_empty_and_weigh_nothing():
    """Catches a loss over rows without an image."""
    last = batches_of(13)[1]
    assert last.weights[:, 0].tolist() == [1] * 5 + [0] * 3
    assert not last.patches[5:].any() and not last.targets[5:].any()
    filled = fill_images(np.ones((2, 4, 3), np.float32), np.array([5, 6]), 4)
    assert filled.targets[:, 0].tolist() == [5, 6, 0, 0]
    assert filled.weights[:, 0].tolist() == [1, 1, 0, 0]
    assert filled.patches.sum((1, 2)).tolist() == [12, 12, 0, 0]
