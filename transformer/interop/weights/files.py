"""Files of tensors: safetensors, and PyTorch's, read without PyTorch and without running pickles.

Opening a file reads where each tensor lies; its numbers are read when it is asked for.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from transformer.files.storage import PathLike, write_atomically
from transformer.interop.weights.pytorch import TensorFileError, damaged, read_pytorch
from transformer.optional_libraries import require

DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL")  # numpy has them


class TensorFiles(Mapping[str, np.ndarray]):
    """The tensors of some files by name, each read from its file whenever it is asked for."""

    def __init__(self, read: Mapping[str, Callable[[], np.ndarray]]) -> None:
        self._read = dict(read)

    def __getitem__(self, name: str) -> np.ndarray:
        return self._read[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


def open_tensors(folder: PathLike) -> TensorFiles:
    """Opens the weights of a Hugging Face folder: model.safetensors or else pytorch_model.bin.

    Either may be split into files that an index names (model.safetensors.index.json). Raises
    ValueError, naming the file, if there is none or if one is damaged or incomplete.
    """
    for name, read in (
        ("model.safetensors", read_safetensors),
        ("pytorch_model.bin", _read_pytorch),
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


def read_safetensors(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    """Returns what reads each tensor of a safetensors file; raises ValueError if it is damaged."""
    library = require("safetensors")
    try:
        file = library.safe_open(path, "numpy")
        dtypes = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    except library.SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise damaged(path, f"its header does not describe its content ({reason})") from None
    for name, dtype in dtypes.items():
        if dtype not in DTYPES:
            raise TensorFileError(
                f"{path}: the tensor {name} is of type {dtype}, which is not read: take a file of "
                f"float32, float16 or bfloat16."
            )
    return {name: partial(_read_tensor, path, name) for name in dtypes}


def _read_tensor(path: Path, name: str) -> np.ndarray:
    """Opens the file for one tensor: one that stays open holds in memory all that was read."""
    with require("safetensors").safe_open(path, "numpy") as file:
        return file.get_tensor(name)


def _read_pytorch(path: Path) -> dict[str, Callable[[], np.ndarray]]:
    return {name: tensor.read for name, tensor in read_pytorch(path).items()}


def save_tensors(
    path: PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file; Hugging Face wants the metadata {"format": "pt"}."""
    # The library writes the memory of an array as it lies, whatever its strides say.
    dense = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    about = dict(metadata) if metadata else None
    write_atomically(path, require("safetensors.numpy").save(dense, about))
