"""Images for training that are flipped and cropped at random, anew in each batch."""

import numpy as np

from transformer.config import DataConfig
from transformer.data.images import ImageBatches, to_patches


class AugmentedImageBatches(ImageBatches):
    """`ImageBatches` of images that are changed by draws of (seed, step): runs resume exactly.

    With `data.crop_padding` an image is surrounded by so many pixels of 0, and cropped to its size
    at a random place; with `data.flip_images` half of the images are mirrored left to right.
    """

    def __init__(
        self, images: np.ndarray, targets: np.ndarray, data: DataConfig, **options: int
    ) -> None:
        """Takes images [N, height, width, C] float32, targets [N] int32, and what the base does."""
        super().__init__(to_patches(images, data.patch_size), targets, **options)
        self.images, self.data = images, data

    def _patches_of(self, chosen: np.ndarray, step: int) -> np.ndarray:
        rng, images = np.random.default_rng((self.seed, step, 1)), self.images[chosen]
        if self.data.flip_images:
            is_mirrored = rng.random(len(images)) < 0.5
            images[is_mirrored] = images[is_mirrored, :, ::-1]
        if padding := self.data.crop_padding:
            places = rng.integers(0, 2 * padding + 1, (len(images), 2))
            images = crop(images, places, padding)
        return to_patches(images, self.data.patch_size)


def crop(images: np.ndarray, places: np.ndarray, padding: int) -> np.ndarray:
    """Returns images [N, height, width, C] of the same size, cropped from padded ones.

    places [N, 2]: row and column of the padded image where each begins. With one pixel of padding
    the place (1, 1) is the image itself, and (0, 1) is moved down by one pixel:

        1 2    →    0 0
        3 4         1 2
    """
    _, height, width, _ = images.shape
    padded = np.pad(images, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    rows = places[:, 0, None] + np.arange(height)
    columns = places[:, 1, None] + np.arange(width)
    return padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None]]
