"""Images for training that are flipped and cropped at random, anew in each batch."""

import numpy as np

from transformer.data.images import ImageBatches, to_patches


class AugmentedImageBatches(ImageBatches):
    """`ImageBatches` of images that are changed by draws of (seed, step): runs resume exactly.

    padding: an image is surrounded by so many pixels of 0, and cropped to its size at a random
    place. is_flipped: half of the images are mirrored left to right.
    """

    def __init__(
        self,
        images: np.ndarray,
        targets: np.ndarray,
        *,
        patch_size: int,
        padding: int,
        is_flipped: bool,
        rows_per_batch: int,
        seed: int,
    ) -> None:
        """Takes images [N, height, width, C] float32 and targets [N] int32."""
        patches = to_patches(images, patch_size)
        super().__init__(patches, targets, rows_per_batch=rows_per_batch, seed=seed)
        self.images, self.patch_size = images, patch_size
        self.padding, self.is_flipped = padding, is_flipped

    def _patches_of(self, chosen: np.ndarray, step: int) -> np.ndarray:
        rng, images = np.random.default_rng((self.seed, step, 1)), self.images[chosen]
        if self.is_flipped:
            is_mirrored = rng.random(len(images)) < 0.5
            images[is_mirrored] = images[is_mirrored, :, ::-1]
        if self.padding:
            places = rng.integers(0, 2 * self.padding + 1, (len(images), 2))
            images = crop(images, places, self.padding)
        return to_patches(images, self.patch_size)


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
