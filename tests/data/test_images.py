"""images.py: files to labelled images of one kind, images to patches, patches to batches."""

import io
import itertools
import zlib

import numpy as np
import pytest

from transformer.config import DataConfig
from transformer.data.rows.images import ImageBatches, crop, load_images, to_patches

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (10, 6, 4), np.uint8)


def corpus_of(folder, **arrays):
    """A `DataConfig` of a folder that holds train.npz."""
    np.savez(folder / "train.npz", **{"images": PIXELS, "labels": np.arange(10)} | arrays)
    return DataConfig(corpus=str(folder))


def test_whole_numbers_become_shares_of_255_and_colours_stay(tmp_path):
    """Catches pixels of 0 to 255 in a network, scaled twice, and channels taken for rows."""
    for pixels, scale in ((PIXELS // 2, 255), (PIXELS / 255, 1)):
        images, labels = load_images(corpus_of(tmp_path, images=pixels), "train")
        assert images.dtype == np.float32 and images.shape == (10, 6, 4, 1)
        np.testing.assert_allclose(images[..., 0], pixels / scale, rtol=1e-6)
        assert labels == [str(i) for i in range(10)]
    colours, names = RNG.random((3, 5, 4, 3), np.float32), ["cat", "dog", "cat"]
    images, labels = load_images(corpus_of(tmp_path, images=colours, labels=names), "train")
    assert np.array_equal(images, colours) and labels == names
    assert {type(label) for label in labels} == {str}


RANGE = r"whole numbers from 0 to 255 or others from 0 to 1, not"
COUNTS = r"has 10 images and labels of shape \(9,\)\.$"
REFUSED = [  # (the arrays, the split, the sentence)
    ({"images": PIXELS * 1.0}, "train", RANGE),
    ({"images": PIXELS.astype(np.uint16) * 200}, "train", RANGE),
    ({"images": PIXELS.astype(int) - 9}, "train", RANGE),
    ({"labels": np.arange(9)}, "train[:50%]", COUNTS),
    ({}, "train[:4%]", r"^The split 'train\[:4%\]' of .* holds no image\.$"),
    *(
        ({"images": np.zeros(shape), "labels": np.zeros(shape[:1])}, "train", "must be .*one shape")
        for shape in [(), (5, 4), (5, 4, 4, 1, 1), (0, 4, 4)]
    ),
]


@pytest.mark.parametrize(("arrays", "split", "said"), REFUSED)
def test_what_is_no_set_of_images_is_refused(arrays, split, said, tmp_path):
    """Catches vectors, videos and pixels out of their range, a zip() that drops what is over, and a
    division by zero batches."""
    with pytest.raises(ValueError, match=said):
        load_images(corpus_of(tmp_path, **arrays), split)


def damaged_files():
    """What a train.npz can be instead: nothing, half of it, with a wrong byte, something else."""
    whole, array, other = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez_compressed(whole, images=PIXELS, labels=np.arange(10))
    np.save(array, PIXELS)
    np.savez(other, images=PIXELS)
    data = whole.getvalue()
    start = data.index(b"images.npy") + 40
    flipped = [data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :] for at in (start, start + 100)]
    files = [b"", data[: len(data) // 2], b"hello", zlib.compress(data), array.getvalue()]
    return [*files, other.getvalue(), *flipped]


@pytest.mark.parametrize("data", damaged_files(), ids=range(8))
def test_a_damaged_file_is_refused_in_one_sentence(data, tmp_path):
    """Catches a stack trace of zipfile, a KeyError, and a file that is read as far as it goes."""
    (tmp_path / "train.npz").write_bytes(data)
    said = r"^\S*train\.npz must be numpy's \.npz with [^\n]*[^.]\.$"
    with pytest.raises(ValueError, match=said):
        load_images(DataConfig(corpus=str(tmp_path)), "train")


@pytest.mark.long
def test_digits():
    """Catches images in the order of their writers, labels left in it, and pixels above 1."""
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    config = DataConfig(corpus="sklearn:digits")
    images, labels = load_images(config, "all")
    assert images.shape == (1797, 8, 8, 1) and images.min() == 0 and images.max() == 1
    digits = datasets.load_digits()
    known = {image.tobytes(): str(n) for image, n in zip(digits.images, digits.target, strict=True)}
    shown = [known[(16.0 * image[..., 0]).astype(np.float64).tobytes()] for image in images]
    assert shown == labels != digits.target.astype(str).tolist()
    assert np.array_equal(load_images(config, "all[80%:]")[0], images[1437:])
    with pytest.raises(ValueError, match=r"has the split 'all' and its parts, not 'train'\.$"):
        load_images(config, "train")


@pytest.mark.parametrize(("height", "width", "channels", "size"), [(6, 4, 3, 2), (3, 9, 1, 3)])
def test_patches_go_row_by_row(height, width, channels, size):
    """Catches rows and columns exchanged, of the patches or in one, and strips for squares."""
    images = RNG.random((2, height, width, channels), np.float32)
    for image, row in zip(images, to_patches(images, size), strict=True):
        places = itertools.product(range(0, height, size), range(0, width, size))
        expected = [image[y : y + size, x : x + size].ravel() for y, x in places]
        assert np.array_equal(row, expected)
    with pytest.raises(ValueError, match=rf"^data\.patch_size \(4\) must .* {height} × {width} "):
        to_patches(images, 4)  # of one side, or of both


def batches_of(images, **options):
    targets = np.arange(len(images), dtype=np.int32)
    return ImageBatches(images, targets, patch_size=2, rows_per_batch=8, seed=0, **options)


@pytest.mark.parametrize("num_images", [1, 7, 8, 9, 100])
def test_every_image_once_an_epoch(num_images):
    """Catches images left out of a last batch, shown twice, or with another's class; a loss over
    rows without an image."""
    pixels = np.arange(num_images, dtype=np.float32) + 1
    batches = batches_of(np.tile(pixels[:, None, None, None], (1, 2, 2, 3)))
    assert batches.batches_per_epoch == -(-num_images // 8)
    for epoch in (0, 1, 5):
        shown = []
        for step in range(batches.batches_per_epoch):
            batch = batches[epoch * batches.batches_per_epoch + step]
            is_image = batch.weights[:, 0] == 1
            assert (batch.patches[is_image] == batch.targets[is_image, :, None] + 1).all()
            assert not batch.patches[~is_image].any() and not batch.targets[~is_image].any()
            shown += batch.targets[is_image, 0].tolist()
        assert sorted(shown) == list(range(num_images))
        assert (shown != sorted(shown)) == (num_images > 2)


IMAGES = RNG.random((40, 4, 4, 2), np.float32) + 1


def test_half_of_the_images_are_mirrored():
    """Catches flips of rows instead of columns, of patches instead of pixels, and of all images."""
    before, batches = IMAGES.copy(), batches_of(IMAGES, flip=True)
    whole, mirrored = (to_patches(x, 2) for x in (IMAGES, IMAGES[:, :, ::-1]))
    rows = [(p, t) for step in range(10) for p, t in zip(*batches[step][:2], strict=True)]
    counts = [sum(np.array_equal(p, x[t[0]]) for p, t in rows) for x in (whole, mirrored)]
    assert sum(counts) == 80 and 20 <= counts[0] <= 60
    np.testing.assert_array_equal(IMAGES, before)


def test_crops_are_of_every_place():
    """Catches rows taken for columns, pixels that are wrapped around instead of being 0, crops that
    stay in one corner, and a change of which images a step shows."""
    image = np.arange(1, 5, dtype=np.float32).reshape(1, 2, 2, 1)
    for place, expected in ((0, 1), [[0, 0], [1, 2]]), ((2, 0), [[0, 3], [0, 0]]):
        assert crop(image, np.array([place]), 1)[0, :, :, 0].tolist() == expected
    batches, plain, moved = batches_of(IMAGES, crop_padding=1), batches_of(IMAGES), set()
    crops = {p: to_patches(crop(IMAGES, np.array([p] * 40), 1), 2) for p in np.ndindex(3, 3)}
    for step in range(40):
        np.testing.assert_array_equal(plain[step].targets, batches[step].targets)
        for patches, target in zip(*batches[step][:2], strict=True):
            moved |= {p for p, crop in crops.items() if np.array_equal(patches, crop[target[0]])}
    assert len(moved) == 9
