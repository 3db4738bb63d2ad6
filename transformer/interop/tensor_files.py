"""Files of tensors: safetensors, and PyTorch's, read without PyTorch and without running pickles.

Opening a file reads where each tensor lies; its numbers are read when it is asked for.
"""

import json
import math
from collections.abc import Iterator, Mapping
from operator import index
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from transformer.interop.pytorch_files import read_pytorch
from transformer.interop.stored_tensor import StoredTensor, TensorFileError, damaged
from transformer.storage import PathLike, open_atomically

DTYPES: dict[str, np.dtype] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16), "I64": np.dtype(np.int64), "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16), "I8": np.dtype(np.int8), "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}  # fmt: skip
LONGEST_HEADER = 100 * 2**20  # bytes, as the library safetensors has it


class TensorFiles(Mapping[str, np.ndarray]):
    """The tensors of some files by name, each read from its file whenever it is asked for."""

    def __init__(self, stored: Mapping[str, StoredTensor]) -> None:
        self._stored = dict(stored)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._stored[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def open_tensors(folder: PathLike) -> TensorFiles:
    """Opens the weights of a Hugging Face folder: model.safetensors or else pytorch_model.bin.

    Either may be split into files that an index names (model.safetensors.index.json). Raises
    ValueError, naming the file, if there is none or if one is damaged or incomplete.
    """
    for name, read in (
        ("model.safetensors", read_safetensors),
        ("pytorch_model.bin", read_pytorch),
    ):
        file, listing = Path(folder, name), Path(folder, f"{name}.index.json")
        if file.is_file():
            return TensorFiles(read(file))
        if listing.is_file():
            named = _read_index(listing)
            shards = [read(Path(folder, shard)) for shard in sorted(set(named.values()))]
            found = {name: tensor for shard in shards for name, tensor in shard.items()}
            if lost := sorted(named.keys() - found.keys()):
                raise damaged(listing, f"no file that it names holds {lost[0]}")
            return TensorFiles(found)
    raise ValueError(
        f"{folder} holds no weights: neither model.safetensors nor pytorch_model.bin, nor an index "
        f"of one of them (model.safetensors.index.json)."
    )


def _read_index(listing: Path) -> dict[str, str]:
    """Returns {name of a tensor: name of the file beside `listing` that holds it}."""
    try:
        named = dict(json.loads(listing.read_bytes())["weight_map"])
        is_valid = all(Path(file).name == file for file in named.values())
    except (ValueError, LookupError, TypeError, RecursionError):
        named, is_valid = {}, False
    if not is_valid:
        raise damaged(listing, "it is no index of files in its folder")
    missing = [file for file in set(named.values()) if not (listing.parent / file).is_file()]
    if missing:
        raise damaged(listing, f"{min(missing)}, which it names, is missing")
    return named


def read_safetensors(path: Path) -> dict[str, StoredTensor]:
    """Returns where each tensor of a safetensors file lies; raises ValueError if it is damaged.

    The file is the length of a header (8 bytes), the header in JSON, and the numbers.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise damaged(path, "it ends before its header does")
        header = file.read(length)
    try:
        described: dict[str, Any] = dict(json.loads(header))
        described.pop("__metadata__", None)
        return {name: _locate(path, 8 + length, name, about) for name, about in described.items()}
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        if isinstance(error, TensorFileError):
            raise
        raise damaged(path, "its header cannot be read") from None


def _locate(path: Path, start: int, name: str, about: dict[str, Any]) -> StoredTensor:
    """Returns a tensor as the header describes it; start: where the numbers begin in the file."""
    if about["dtype"] not in DTYPES:
        raise TensorFileError(
            f"{path}: the tensor {name} is of type {about['dtype']}, which is not read: take a "
            f"file of float32, float16 or bfloat16."
        )
    dtype, shape = DTYPES[about["dtype"]], tuple(map(index, about["shape"]))
    begin, end = map(index, about["data_offsets"])
    if min((0, *shape)) < 0 or end - begin != math.prod(shape) * dtype.itemsize:
        raise damaged(path, f"the tensor {name} {shape} has {end - begin:,} bytes")
    if not 0 <= begin <= end <= path.stat().st_size - start:
        raise damaged(path, f"it ends before the tensor {name} does")
    return StoredTensor(path, start + begin, dtype, shape)


def save_tensors(
    path: PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file; Hugging Face wants the metadata {"format": "pt"}."""
    names = {dtype: name for name, dtype in DTYPES.items()}
    # Wide numbers first, so that all are aligned.
    order = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name in order:
        tensor = tensors[name]
        begin, end = end, end + tensor.nbytes
        about = {"dtype": names[tensor.dtype], "shape": tensor.shape, "data_offsets": (begin, end)}
        header[name] = about
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with open_atomically(path) as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded)
        for name in order:
            file.write(np.ascontiguousarray(tensors[name]).reshape(-1).view(np.uint8).data)
