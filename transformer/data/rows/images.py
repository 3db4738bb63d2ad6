"""Reads labelled images, cuts them into patches, and makes batches of them.

A corpus is a folder of `train.npz` and the like (arrays `images` [N, height, width(, channels)]
and `labels` [N]), `sklearn:digits`, or `tfds:NAME` for a TFDS dataset with an image and a label.
"""

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from etils import epath

from transformer.config import DataConfig
from transformer.data.files.text import find_split, parse_split, part_of
from transformer.files.storage import locate
from transformer.optional_libraries import require

NPZ_ERRORS = KeyError, ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error


def load_images(config: DataConfig, split: str) -> tuple[np.ndarray, list[str]]:
    """Returns (images [N, height, width, channels] float32 from 0 to 1, N labels) of a split.

    Raises ValueError if the split is missing, damaged or empty, or holds images of several shapes.
    """
    if config.corpus.startswith("tfds:"):
        from transformer.data.tfds import load_labelled

        rows = load_labelled(config.corpus.removeprefix("tfds:"), split, ["image"])
        images, labels = [image for image, _ in rows], [label for _, label in rows]
        start, stop = 0.0, 1.0  # TFDS took the part
    else:
        name, start, stop = parse_split(split)
        if config.corpus == "sklearn:digits":
            images, labels = _load_digits(name)
        else:
            images, labels = _load_npz(locate(config.corpus), name)
    what = f"The split '{split}' of {config.corpus}"
    pixels = part_of(_check_images(images, labels, what), start, stop)
    if not len(pixels):
        raise ValueError(f"{what} holds no image.")
    return pixels, part_of([str(label) for label in labels], start, stop)


def _load_digits(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name != "all":
        raise ValueError(f"sklearn:digits has the split 'all' and its parts, not '{name}'.")
    images, labels = require("sklearn.datasets", "images").load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))  # the file is ordered by writer
    return images.reshape(-1, 8, 8)[order] / 16.0, labels[order]


def _load_npz(folder: epath.Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    path = find_split(folder, name, "npz")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return np.atleast_1d(arrays["images"]), arrays["labels"]
    except NPZ_ERRORS as error:
        needed = f"{path} must be numpy's .npz with arrays 'images' and 'labels'"
        raise ValueError(f"{needed}: {str(error).rstrip('.')}.") from None


def _check_images(
    images: Sequence[np.ndarray] | np.ndarray, labels: Sequence[Any] | np.ndarray, what: str
) -> np.ndarray:
    """Returns the images as one array [N, height, width, channels] float32, from 0 to 1."""
    shapes = sorted({np.shape(image) for image in images})
    if len(shapes) != 1 or len(shapes[0]) not in (2, 3):
        needed = "images of one shape, height × width or height × width × channels"
        raise ValueError(f"{what} must be {needed}, not {shapes[:4] or 'none'}.")
    if np.shape(labels) != (len(images),):
        raise ValueError(f"{what} has {len(images)} images and labels of shape {np.shape(labels)}.")
    array = np.asarray(images)
    scale = np.float32(255 if np.issubdtype(array.dtype, np.integer) else 1)
    array = array.astype(np.float32) / scale
    if not are_shares(array):
        raise ValueError(
            f"{what} must hold whole numbers from 0 to 255 or others from 0 to 1, not from "
            f"{scale * array.min():g} to {scale * array.max():g}."
        )
    return array if array.ndim == 4 else array[..., None]


def are_shares(images: np.ndarray) -> bool:
    """Returns whether all values are from 0 to 1, but for rounding; no NaN is."""
    return not images.size or bool(images.min() > -0.01 and images.max() < 1.01)


def to_patches(images: np.ndarray, size: int) -> np.ndarray:
    """Cuts images [N, height, width, C] into patches [N, S, size · size · C], row by row.

    An image of 4 × 6 pixels, numbered row by row, gives S = 6 patches of size 2:

         0  1   2  3   4  5       (0 1 6 7) (2 3 8 9) (4 5 10 11)
         6  7   8  9  10 11
        12 13  14 15  16 17       (12 13 18 19) (14 15 20 21) (16 17 22 23)
        18 19  20 21  22 23

    Raises ValueError if `size` does not divide height and width.
    """
    num_images, height, width, channels = images.shape
    if height % size or width % size:
        raise ValueError(
            f"data.patch_size ({size}) must divide the images' {height} × {width} pixels."
        )
    patches = images.reshape(num_images, height // size, size, width // size, size, channels)
    return patches.swapaxes(2, 3).reshape(num_images, -1, size * size * channels)


class ImageBatch(NamedTuple):
    """Images as patches, one image per row."""

    patches: np.ndarray  # [B, S, pixels] float32
    targets: np.ndarray  # [B, 1] int32: the number of the class
    weights: np.ndarray  # [B, 1] float32: 1, or 0 on a row without an image


@dataclass(eq=False)
class ImageBatches:
    """`batches[step]` is an `ImageBatch`; an epoch shows each image once, in its own order.

    The last rows of an epoch may be empty. Images are changed by draws of (seed, step): with
    `crop_padding` one is surrounded by so many pixels of 0, and cropped to its size at a random
    place; with `flip` half of them are mirrored left to right.
    """

    images: np.ndarray  # [N, height, width, C] float32
    targets: np.ndarray  # [N] int32
    _: KW_ONLY
    patch_size: int
    rows_per_batch: int
    seed: int
    flip: bool = False
    crop_padding: int = 0

    @property
    def batches_per_epoch(self) -> int:
        return -(-len(self.targets) // self.rows_per_batch)

    def __getitem__(self, step: int) -> ImageBatch:
        epoch, index = divmod(step, self.batches_per_epoch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.targets))
        chosen = order[index * self.rows_per_batch :][: self.rows_per_batch]
        images, rng = self.images[chosen], np.random.default_rng((self.seed, step, 1))
        if self.flip:
            is_mirrored = rng.random(len(images)) < 0.5
            images[is_mirrored] = images[is_mirrored, :, ::-1]
        if self.crop_padding:
            places = rng.integers(0, 2 * self.crop_padding + 1, (len(images), 2))
            images = crop(images, places, self.crop_padding)
        patches = to_patches(images, self.patch_size)
        return fill_images(patches, self.targets[chosen], self.rows_per_batch)


def fill_images(patches: np.ndarray, targets: np.ndarray, num_rows: int) -> ImageBatch:
    """Returns an `ImageBatch` of `num_rows` rows, the last of them without an image."""
    missing = num_rows - len(patches)
    return ImageBatch(
        np.pad(patches, [(0, missing), (0, 0), (0, 0)]),
        np.pad(targets, (0, missing))[:, None],
        (np.arange(num_rows) < len(patches)).astype(np.float32)[:, None],
    )


def crop(images: np.ndarray, places: np.ndarray, padding: int) -> np.ndarray:
    """Returns images [N, height, width, C] of the same size, cropped from padded ones.

    places [N, 2]: row and column of the padded image where each begins. With one pixel of padding
    the place (1, 1) is the image itself, and (0, 1) is moved down by one pixel:

        1 2    →    0 0
        3 4         1 2
    """
    padded = np.pad(images, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, images.shape[1:3], axis=(1, 2))
    rows, columns = places.T
    return np.moveaxis(windows[np.arange(len(images)), rows, columns], 1, -1)
