"""A name or files -> labelled images, and images -> the patches that a Transformer reads.

A corpus is a folder of `train.npz` and the like (arrays `images` [N, height, width(, channels)]
and `labels` [N]), `sklearn:digits`, or `tfds:NAME` for a TFDS dataset with an image and a label.
"""

import zipfile
import zlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from transformer.data.splits import parse_split, part_of
from transformer.data.text_files import describe_folder

NOT_NPZ = KeyError, ValueError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error


def load_images(config, split):
    """(images [N, height, width, channels] float32 from 0 to 1, labels: list of str)."""
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
            images, labels = _load_npz(Path(config.corpus).expanduser(), name)
    what = f"The split '{split}' of {config.corpus}"
    images, labels = _checked(images, labels, what)
    images, labels = part_of(images, start, stop), part_of(labels, start, stop)
    if not len(images):
        raise ValueError(f"{what} holds no image.")
    return images, [str(label) for label in labels]


def _load_digits(name):
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ValueError("sklearn:digits needs scikit-learn: pip install scikit-learn.") from None
    if name != "all":
        raise ValueError(f"sklearn:digits has the split 'all' and its parts, not '{name}'.")
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))  # it goes by writer
    return digits.images[order] / 16.0, digits.target[order]


def _load_npz(folder, name):
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise ValueError(
            f"The corpus folder {folder} must hold {name}.npz; {describe_folder(folder)}."
        )
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return np.atleast_1d(arrays["images"]), arrays["labels"]
    except NOT_NPZ as error:
        reason = str(error).rstrip(".")
        raise ValueError(
            f"{path} must be numpy's .npz with arrays 'images' and 'labels': {reason}."
        ) from None


def _checked(images, labels, what):
    """The images as one array; they must be alike in shape and as many as the labels."""
    shapes = {np.shape(image) for image in images}
    if len(shapes) != 1 or len(next(iter(shapes))) not in (2, 3):
        raise ValueError(
            f"{what} must be images of one shape, height × width or height × width × channels, "
            f"not {sorted(shapes)[:4] or 'none'}."
        )
    if np.ndim(labels) != 1:
        raise ValueError(f"{what} must have one label an image, not labels {np.shape(labels)}.")
    if len(images) != len(labels):
        raise ValueError(f"{what} has {len(images)} images and {len(labels)} labels.")
    images = np.asarray(images)
    scale = 255.0 if np.issubdtype(images.dtype, np.integer) else 1.0
    images = images.astype(np.float32) / np.float32(scale)
    return images if images.ndim == 4 else images[..., None], labels


def to_patches(images, size):
    """[N, height, width, C] -> [N, patches, size · size · C], row by row."""
    number, height, width, channels = images.shape
    if height % size or width % size:
        raise ValueError(
            f"data.patch_size ({size}) must divide the images' {height} × {width} pixels."
        )
    patches = images.reshape(number, height // size, size, width // size, size, channels)
    return patches.swapaxes(2, 3).reshape(number, -1, size * size * channels)


class ImageBatch(NamedTuple):
    """Images as patches [B, S, pixels] float32; their classes [B, 1]; 1 for each that is there."""

    patches: np.ndarray
    targets: np.ndarray
    weights: np.ndarray


class ImageBatches:
    """`batches[step]`: an epoch shows each image once, in an order of its own.

    Evaluation reads the first `batches_per_epoch` of an object of its own, the last rows empty.
    """

    def __init__(self, patches, targets, *, rows_per_batch, seed):
        self.patches, self.targets = patches, targets
        self.rows_per_batch, self.seed = rows_per_batch, seed
        self.batches_per_epoch = -(-len(targets) // rows_per_batch)
        self._order = lru_cache(maxsize=2)(self._make_order)

    def _make_order(self, epoch):
        return np.random.default_rng((self.seed, epoch)).permutation(len(self.targets))

    def __getitem__(self, step):
        epoch, index = divmod(step, self.batches_per_epoch)
        chosen = self._order(epoch)[index * self.rows_per_batch :][: self.rows_per_batch]
        return fill_images(self.patches[chosen], self.targets[chosen], self.rows_per_batch)

    def plan_ahead(self, step):
        """Nothing takes long."""


def fill_images(patches, targets, num_rows):
    """An `ImageBatch` of so many rows, the last ones without an image."""
    missing = num_rows - len(patches)
    return ImageBatch(
        np.pad(patches, [(0, missing), (0, 0), (0, 0)]),
        np.pad(targets, (0, missing))[:, None],
        np.pad(np.ones(len(targets), np.float32), (0, missing))[:, None],
    )
