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
from functools import partial
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


class Storage(NamedTuple):
    """Numbers of one type in a file, which is mapped into memory; tensors are views of them."""

    content: np.ndarray  # uint8
    dtype: np.dtype


def damaged(path: Path, reason: str, way_out: str = "copy it again") -> TensorFileError:
    """Returns the error for a file that is not what its name says."""
    with path.open("rb") as file:
        if file.read(24) == b"version https://git-lfs.":
            return TensorFileError(f"{path} is a pointer of Git LFS; fetch the file: git lfs pull.")
    return TensorFileError(f"{path} is damaged or incomplete: {reason}; {way_out}.")


def read_pytorch(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Returns what reads each tensor of a file of `torch.save`.

    Raises ValueError if the file is damaged, older than PyTorch 1.6, or holds more than tensors.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            tensors = _PickleReader(path, archive).load()
    except TensorFileError:
        raise
    except zipfile.BadZipFile:
        reason = "it is no zip archive, as what PyTorch writes since 1.6"
        raise damaged(path, reason, "take the model.safetensors of this model") from None
    except Exception:  # a damaged pickle raises a dozen types of error
        raise damaged(path, "its list of tensors cannot be read") from None
    if not isinstance(tensors, dict) or any(
        type(name) is not str or type(tensor) is not np.ndarray for name, tensor in tensors.items()
    ):
        raise TensorFileError(f"{path} holds more than tensors by name.")
    return {name: partial(np.array, tensor) for name, tensor in tensors.items()}


class _PickleReader(pickle._Unpickler):
    """Reads the pickle of an archive; the C version would allocate whatever a file claims."""

    dispatch: ClassVar = dict(pickle._Unpickler.dispatch)
    del dispatch[pickle.BYTEARRAY8[0]]  # would do so too, and no list of tensors has it

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._content = path, np.memmap(path, np.uint8, "r")
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

    def load_build(self) -> None:
        """Drops the attributes that a pickle gives an object: torch.save notes versions there."""
        self.stack.pop()  # pyrefly: ignore[missing-attribute]: of the reader in Python

    dispatch[pickle.BUILD[0]] = load_build  # pyrefly: ignore[unsupported-operation]

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

    def persistent_load(self, pid: tuple[str, np.dtype, str, str, int]) -> Storage:
        """Returns the numbers of a storage, which come after a header of their own."""
        _, dtype, key, _, num_numbers = pid
        info, num_bytes = self._member(f"data/{key}"), num_numbers * dtype.itemsize
        lengths = self._content[info.header_offset + 26 :][:4].view(np.uint16)
        content = self._content[info.header_offset + 30 + int(lengths.sum()) :][:num_bytes]
        if not 0 <= num_bytes <= min(info.file_size, len(content)):
            raise damaged(self._path, f"data/{key} is shorter than its tensors")
        return Storage(content, dtype)


def _rebuild_tensor(
    storage: Storage, first: int, shape: Sequence[int], strides: Sequence[int], *_: object
) -> np.ndarray:
    """Returns a view of a storage, from its number `first` on; numpy refuses what lies beyond."""
    (content, dtype), shape = storage, tuple(map(index, shape))
    if type(storage) is not Storage or math.prod(shape) * dtype.itemsize > len(content):
        raise ValueError  # an expanded tensor of few bytes would fill the memory
    steps = [index(stride) * dtype.itemsize for stride in strides]
    return np.ndarray(shape, dtype, content, index(first) * dtype.itemsize, steps)
