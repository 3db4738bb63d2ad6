"""Random flips and crops: drawn by seed and step, of the right pixels, on training images alone."""

import numpy as np
import pytest

from transformer.config import DataConfig
from transformer.data.rows.images import AugmentedImageBatches, ImageBatches, crop, to_patches

N, SIDE = 40, 4


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).random((N, SIDE, SIDE, 2)).astype(np.float32) + 1


def batches_of(images, seed=0, padding=0, is_flipped=False):
    data = DataConfig(patch_size=2, crop_padding=padding, flip_images=is_flipped)
    targets = np.arange(N, dtype=np.int32)
    return AugmentedImageBatches(images, targets, data, rows_per_batch=8, seed=seed)


def variants(images, batches, steps=range(10)):
    """(how many images are as they were, how many are mirrored) in the batches of two epochs."""
    whole, mirrored = (to_patches(x, 2) for x in (images, images[:, :, ::-1]))
    rows = [(p, t) for step in steps for p, t in zip(*batches[step][:2], strict=True)]
    return tuple(
        sum(np.array_equal(p, found[t[0]]) for p, t in rows) for found in (whole, mirrored)
    )


def test_half_of_the_images_are_mirrored(images):
    """Catches flips of rows instead of columns, of patches instead of pixels, and of all images."""
    before = images.copy()
    same, mirrored = variants(images, batches_of(images, is_flipped=True))
    assert same + mirrored == 2 * N and 20 <= same <= 60
    np.testing.assert_array_equal(images, before)


def test_crops_by_hand():
    """Catches rows taken for columns, and pixels that are wrapped around instead of being 0."""
    image = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2, 1)
    places = np.array([[1, 1], [0, 1], [2, 0]])
    found = crop(np.repeat(image, 3, axis=0), places, 1)[..., 0]
    np.testing.assert_array_equal(found, [[[1, 2], [3, 4]], [[0, 0], [1, 2]], [[0, 3], [0, 0]]])


def test_every_place_of_a_crop_occurs(images):
    """Catches an image that is never moved to one side."""
    batches = batches_of(images, padding=1)
    moved = {
        tuple(place)
        for step in range(10)
        for patches, target in zip(*batches[step][:2], strict=True)
        for place in np.ndindex(3, 3)
        if np.array_equal(patches, to_patches(crop(images[target], np.array([place]), 1), 2)[0])
    }
    assert len(moved) == 9


def test_draws_are_a_function_of_seed_and_step(images):
    """Catches state: a resumed run must see the batches of the uninterrupted one."""
    options = dict(padding=1, is_flipped=True)
    in_order = [batches_of(images, **options)[step].patches for step in range(12)]
    fresh = batches_of(images, **options)
    for step in reversed(range(12)):
        np.testing.assert_array_equal(fresh[step].patches, in_order[step])
    other = batches_of(images, seed=1, **options)[0]
    assert not np.array_equal(other.patches, in_order[0])


def test_order_and_classes_are_those_without_augmentation(images):
    """Catches an augmentation that changes which images a step shows, or whose class is whose."""
    plain = ImageBatches(
        to_patches(images, 2), np.arange(N, dtype=np.int32), rows_per_batch=8, seed=0
    )
    augmented = batches_of(images, padding=1)
    for step in range(6):
        np.testing.assert_array_equal(plain[step].targets, augmented[step].targets)
