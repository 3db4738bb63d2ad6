"""Labelled images -> batches, a pure function of (seed, step)."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np


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
