"""Where the numbers of a tensor lie in a file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np


class TensorFileError(ValueError):
    """Says what is wrong with a file; any other error while one is read is a sign of damage."""


@dataclass(frozen=True)
class StoredTensor:
    """A tensor whose first number is at byte `offset` of a file; `strides` count numbers.

    strides: None for the usual order, in which the last axis is contiguous.
    """

    path: Path
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    def read(self) -> np.ndarray:
        """Returns the numbers; raises ValueError if the file has become shorter."""
        num_bytes = self.num_spanned() * self.dtype.itemsize
        content = np.fromfile(self.path, np.uint8, num_bytes, offset=self.offset)
        if content.size < num_bytes:
            raise damaged(self.path, "it is shorter than when it was opened")
        numbers = content.view(self.dtype)
        if self.strides is None:
            return numbers.reshape(self.shape)
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(numbers, self.shape, strides, writeable=False)

    def num_spanned(self) -> int:
        """Returns the numbers from the first to the last one of the tensor.

        Shape (2, 3) with strides (1, 4) spans 1 + 1·1 + 2·4 = 10 numbers.
        """
        if 0 in self.shape:
            return 0
        if self.strides is None:
            return int(np.prod(self.shape, dtype=object))
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


def damaged(path: Path, reason: str, way_out: str = "copy it again") -> TensorFileError:
    """Returns the error for a file that is not what its name says."""
    with path.open("rb") as file:
        if file.read(24) == b"version https://git-lfs.":
            return TensorFileError(f"{path} is a pointer of Git LFS; fetch the file: git lfs pull.")
    return TensorFileError(f"{path} is damaged or incomplete: {reason}; {way_out}.")
