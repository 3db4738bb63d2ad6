"""images.py: files to labelled images of one kind, and images to patches."""

import io
import zlib

import numpy as np
import pytest

from transformer.config import DataConfig
from transformer.data.rows.images import load_images, to_patches

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (10, 6, 4), np.uint8)


def corpus_of(folder, **arrays):
    """A `DataConfig` of a folder that holds train.npz."""
    np.savez(folder / "train.npz", **arrays)
    return DataConfig(corpus=str(folder))


def test_whole_numbers_become_shares_of_255(tmp_path):
    """Catches pixels of 0 to 255 in a network, scaled to their own largest, or scaled twice."""
    config = corpus_of(tmp_path, images=PIXELS // 2, labels=np.arange(10))
    images, labels = load_images(config, "train")
    assert images.dtype == np.float32 and images.shape == (10, 6, 4, 1)
    np.testing.assert_allclose(images[..., 0], (PIXELS // 2) / 255, rtol=1e-6)
    assert labels == [str(i) for i in range(10)]
    config = corpus_of(tmp_path, images=PIXELS / 255, labels=np.arange(10))
    np.testing.assert_allclose(load_images(config, "train")[0][..., 0], PIXELS / 255, rtol=1e-6)


@pytest.mark.parametrize(
    "pixels", [PIXELS * 1.0, PIXELS.astype(np.uint16) * 200, PIXELS.astype(int) - 9]
)
def test_pixels_beyond_their_range_are_refused(pixels, tmp_path):
    """Catches a training on them whose first evaluation fails."""
    config = corpus_of(tmp_path, images=pixels, labels=np.arange(10))
    with pytest.raises(ValueError, match=r"whole numbers from 0 to 255 or others from 0 to 1, not"):
        load_images(config, "train")


def test_colours_stay(tmp_path):
    """Catches channels taken for rows."""
    colours = RNG.random((3, 5, 4, 3), np.float32)
    config = corpus_of(tmp_path, images=colours, labels=np.array(["cat", "dog", "cat"]))
    images, labels = load_images(config, "train")
    assert np.array_equal(images, colours) and labels == ["cat", "dog", "cat"]
    assert {type(label) for label in labels} == {str}


def test_parts_of_a_split_are_disjoint_and_together_everything(tmp_path):
    """Catches a validation image that is trained on, and labels cut elsewhere than images."""
    config = corpus_of(tmp_path, images=PIXELS, labels=np.arange(10))
    (whole, _), (first, some), (last, rest) = (
        load_images(config, split) for split in ("train", "train[:70%]", "train[70%:]")
    )
    assert np.array_equal(np.concatenate([first, last]), whole)
    assert some == list("0123456") and rest == list("789")


def test_a_part_without_an_image_is_refused(tmp_path):
    """Catches a division by zero batches."""
    config = corpus_of(tmp_path, images=PIXELS[:5], labels=np.arange(5))
    with pytest.raises(ValueError, match=r"^The split 'train\[:10%\]' of .* holds no image\.$"):
        load_images(config, "train[:10%]")


@pytest.mark.parametrize("shape", [(), (5,), (5, 4), (5, 4, 4, 1, 1), (0, 4, 4)])
def test_what_is_no_image_is_refused_with_its_shape(shape, tmp_path):
    """Catches vectors, videos and nothing at all, that fail somewhere in the network."""
    config = corpus_of(tmp_path, images=np.zeros(shape), labels=np.zeros(shape[:1] or 1, int))
    expected = "none" if 0 in shape else rf"\[\({', '.join(map(str, shape[1:]))},?\)\]"
    with pytest.raises(ValueError, match=rf"^The split 'train' of .*one shape.* not {expected}\.$"):
        load_images(config, "train")


def test_unequal_counts_are_refused_with_both(tmp_path):
    """Catches zip(), which pairs what fits and drops the rest."""
    config = corpus_of(tmp_path, images=PIXELS, labels=np.arange(9))
    with pytest.raises(ValueError, match=r"has 10 images and 9 labels\.$"):
        load_images(config, "train[:50%]")


@pytest.mark.parametrize("present", ["images", "labels", "other"])
def test_a_missing_array_is_named(present, tmp_path):
    """Catches a KeyError."""
    config = corpus_of(tmp_path, **{present: PIXELS})
    missing = "labels" if present == "images" else "images"
    with pytest.raises(ValueError, match=rf"^\S*train\.npz must be .*: .*{missing} is not a file"):
        load_images(config, "train")


def damaged_files():
    """What a train.npz can be instead: nothing, half of it, with a wrong byte, something else."""
    whole, array = io.BytesIO(), io.BytesIO()
    np.savez_compressed(whole, images=PIXELS, labels=np.arange(10))
    np.save(array, PIXELS)
    data = whole.getvalue()
    start = data.index(b"images.npy") + 40
    flipped = [data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :] for at in (start, start + 100)]
    return [b"", data[: len(data) // 2], b"hello", zlib.compress(data), array.getvalue(), *flipped]


@pytest.mark.parametrize("data", damaged_files(), ids=range(7))
def test_a_damaged_file_is_refused_in_one_sentence(data, tmp_path):
    """Catches a stack trace of zipfile, and a file that is read as far as it goes."""
    (tmp_path / "train.npz").write_bytes(data)
    with pytest.raises(
        ValueError, match=r"^\S*train\.npz must be numpy's \.npz with [^\n]*[^.]\.$"
    ):
        load_images(DataConfig(corpus=str(tmp_path)), "train")


def test_a_missing_folder_or_file_says_what_the_folder_holds(tmp_path):
    """Catches "No such file or directory" without a way out."""
    config = corpus_of(tmp_path, images=PIXELS, labels=np.arange(10))
    with pytest.raises(ValueError, match=r"must hold test\.npz; it holds train\.npz\.$"):
        load_images(config, "test")
    with pytest.raises(ValueError, match=r"must hold train\.npz; .*no such folder"):
        load_images(DataConfig(corpus=str(tmp_path / "none")), "train")


@pytest.mark.long
def test_digits():
    """Catches images in the order of their writers, labels left in it, and pixels above 1."""
    reason = "scikit-learn is not installed"
    datasets = pytest.importorskip("sklearn.datasets", reason=reason)
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
    patches = to_patches(images, size)
    for image, row in zip(images, patches, strict=True):
        expected = []
        for top in range(0, height, size):
            for left in range(0, width, size):
                expected.append(image[top : top + size, left : left + size].ravel())
        assert np.array_equal(row, expected)


@pytest.mark.parametrize(("height", "width", "size"), [(8, 6, 4), (6, 8, 4), (4, 4, 8)])
def test_a_patch_size_that_does_not_divide_is_refused(height, width, size):
    """Catches pixels cut off at an edge."""
    message = rf"^data\.patch_size \({size}\) must divide .* {height} × {width} pixels\.$"
    with pytest.raises(ValueError, match=message):
        to_patches(np.zeros((1, height, width, 1)), size)
