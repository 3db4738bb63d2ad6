"""Reads pytorch_model.bin without PyTorch: nothing that such a file names is imported or run.

It is a zip archive of a pickle and of uncompressed numbers. The reader of the pickle knows the
names of the types of numbers and three functions, all of which only note where a tensor lies.
"""

import io
import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from operator import index
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import ml_dtypes
import numpy as np

STORAGES: dict[str, np.dtype] = {
    "FloatStorage": np.dtype(np.float32), "HalfStorage": np.dtype(np.float16),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16), "DoubleStorage": np.dtype(np.float64),
    "LongStorage": np.dtype(np.int64), "IntStorage": np.dtype(np.int32),
    "ShortStorage": np.dtype(np.int16), "CharStorage": np.dtype(np.int8),
    "ByteStorage": np.dtype(np.uint8), "BoolStorage": np.dtype(np.bool_),
}  # fmt: skip
LONGEST_PICKLE = 100 * 2**20  # bytes


class TensorFileError(ValueError):
    """Says what is wrong with a file; any other error while one is read is a sign of damage."""


def damaged(path: Path, reason: str, way_out: str = "copy it again") -> TensorFileError:
    """Returns the error for a file that is not what its name says."""
    with path.open("rb") as file:
        if file.read(24) == b"version https://git-lfs.":
            return TensorFileError(f"{path} is a pointer of Git LFS; fetch the file: git lfs pull.")
    return TensorFileError(f"{path} is damaged or incomplete: {reason}; {way_out}.")


class StoredTensor(NamedTuple):
    """A tensor whose first number is at byte `offset` of a file; `strides` count numbers.

    A pickle could change the attributes of an object that is no tuple.
    """

    path: Path
    offset: int
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def read(self) -> np.ndarray:
        """Returns the numbers; raises ValueError if the file has become shorter."""
        num_bytes = self.num_spanned() * self.dtype.itemsize
        content = np.fromfile(self.path, np.uint8, num_bytes, offset=self.offset)
        if content.size < num_bytes:
            raise damaged(self.path, "it is shorter than when it was opened")
        strides = [stride * self.dtype.itemsize for stride in self.strides]
        numbers = content.view(self.dtype)
        return np.lib.stride_tricks.as_strided(numbers, self.shape, strides, writeable=False)

    def num_spanned(self) -> int:
        """Returns the numbers from the first to the last one of the tensor.

        Shape (2, 3) with strides (1, 4) spans 1 + 1·1 + 2·4 = 10 numbers.
        """
        if 0 in self.shape:
            return 0
        return 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))


def read_pytorch(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Returns what reads each tensor of a file of `torch.save`.

    Raises ValueError if the file is damaged, older than PyTorch 1.6, or holds more than tensors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            content = _PickleReader(path, archive).load()
    except TensorFileError:
        raise
    except zipfile.BadZipFile:
        reason = "it is no zip archive, as what PyTorch writes since 1.6"
        raise damaged(path, reason, "take the model.safetensors of this model") from None
    except Exception:  # a damaged pickle raises a dozen types of error
        raise damaged(path, "its list of tensors cannot be read") from None
    tensors = content if isinstance(content, dict) else {"": content}
    if {*map(type, tensors)} - {str} or {*map(type, tensors.values())} - {StoredTensor}:
        raise TensorFileError(f"{path} holds more than tensors by name.")
    return {name: tensor.read for name, tensor in tensors.items()}


class _PickleReader(pickle._Unpickler):
    """Reads the pickle of an archive; the C version would allocate whatever a file claims."""

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # would do so too, and no list of tensors has it

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path = path
        self._members = {info.filename: info for info in archive.infolist()}
        pickles = [name for name in self._members if name.split("/")[1:] == ["data.pkl"]]
        if len(pickles) != 1:
            raise damaged(path, "it holds no data.pkl")
        self._folder = pickles[0].removesuffix("data.pkl")
        if self._member("data.pkl").file_size > LONGEST_PICKLE:
            raise damaged(path, "its list of tensors is too long")
        super().__init__(io.BytesIO(archive.read(pickles[0])))

    def _member(self, name: str) -> zipfile.ZipInfo:
        info = self._members[self._folder + name]
        if info.compress_type != zipfile.ZIP_STORED:
            raise damaged(self._path, "it is compressed, as torch.save never does")
        return info

    def find_class(self, module: str, name: str) -> Callable[..., Any] | np.dtype:
        """Returns what stands for a name in the pickle; raises ValueError for any but a few."""
        full = f"{module}.{name}"
        known: dict[str, Callable[..., Any] | np.dtype] = {
            **{f"torch.{storage}": dtype for storage, dtype in STORAGES.items()},
            "collections.OrderedDict": OrderedDict,
            "torch._utils._rebuild_tensor_v2": _rebuild_tensor,
            "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
        }
        if full not in known:
            raise TensorFileError(
                f"{self._path} asks for {full}, which is no part of a list of tensors and is not "
                f"run: take the model.safetensors of this model."
            )
        return known[full]

    def persistent_load(self, pid: tuple[str, np.dtype, str, str, int]) -> StoredTensor:
        """Returns where the numbers of a storage lie in the archive."""
        _, dtype, key, _, num_numbers = pid
        info = self._member(f"data/{key}")
        with self._path.open("rb") as file:  # the numbers come after a header of their own
            file.seek(info.header_offset + 26)
            offset = info.header_offset + 30 + int(np.frombuffer(file.read(4), np.uint16).sum())
        rest = self._path.stat().st_size - offset
        if num_numbers * dtype.itemsize > min(info.file_size, rest):
            raise damaged(self._path, f"data/{key} is shorter than its tensors")
        return StoredTensor(self._path, offset, dtype, (num_numbers,), (1,))


def _rebuild_tensor(
    storage: StoredTensor, first: int, shape: Sequence[int], strides: Sequence[int], *_: object
) -> StoredTensor:
    """Returns a view of a storage, from its number `first` on."""
    first, shape, strides = index(first), tuple(map(index, shape)), tuple(map(index, strides))
    (num_numbers,) = storage.shape
    offset = storage.offset + first * storage.dtype.itemsize
    tensor = StoredTensor(storage.path, offset, storage.dtype, shape, strides)
    fits = storage.strides == (1,) and 0 <= first <= num_numbers - tensor.num_spanned()
    if min((0, *shape, *strides)) < 0 or not fits or math.prod(shape) > num_numbers:
        raise damaged(storage.path, f"a tensor {shape} lies beyond its numbers")
    return tensor
