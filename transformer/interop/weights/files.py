"""Files of tensors: safetensors, and PyTorch's, read without PyTorch and without running pickles.

Opening a file reads where each tensor lies; its numbers are read when it is asked for.
"""

import json
from collections import UserDict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from transformer.files.storage import PathLike, write_atomically
from transformer.interop.weights.pytorch import TensorFileError, damaged, read_pytorch
from transformer.optional_libraries import require

DTYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL")  # numpy has them
Readers = dict[str, Callable[[], np.ndarray]]


class TensorFiles(UserDict):
    """The tensors of some files by name, each read from its file whenever it is asked for."""

    def __getitem__(self, key: str) -> np.ndarray:
        return self.data[key]()


def open_tensors(folder: PathLike) -> TensorFiles:
    """Opens the weights of a Hugging Face folder: model.safetensors or else pytorch_model.bin.

    Either may be split into files that an index names (model.safetensors.index.json). Raises
    ValueError, naming the file, if there is none or if one is damaged or incomplete.
    """
    kinds = {"model.safetensors": read_safetensors, "pytorch_model.bin": read_pytorch}
    for name, read in kinds.items():
        file, listing = Path(folder, name), Path(folder, f"{name}.index.json")
        if file.is_file():
            return TensorFiles(read(file))
        if listing.is_file():
            return TensorFiles(_read_parts(listing, read))
    raise ValueError(
        f"{folder} holds no weights: neither {' nor '.join(kinds)}, nor an index of one of them."
    )


def _read_parts(listing: Path, read: Callable[[Path], Readers]) -> Readers:
    """Returns the tensors of all files that an index names, which lie beside it."""
    try:
        files = dict(json.loads(listing.read_bytes())["weight_map"])
        is_valid = all(Path(file).name == file for file in files.values())
    except (ValueError, LookupError, TypeError, RecursionError):
        files, is_valid = {}, False
    if not is_valid:
        raise damaged(listing, "it is no index of files in its folder")
    tensors: Readers = {}
    for file in sorted(set(files.values())):
        if not (listing.parent / file).is_file():
            raise damaged(listing, f"{file}, which it names, is missing")
        tensors |= read(listing.parent / file)
    if lost := sorted(files.keys() - tensors.keys()):
        raise damaged(listing, f"no file that it names holds {lost[0]}")
    return tensors


def read_safetensors(path: Path) -> Readers:
    """Returns what reads each tensor of a safetensors file; raises ValueError if it is damaged."""
    library = require("safetensors")
    try:
        file = library.safe_open(path, "numpy")
        dtypes = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
    except library.SafetensorError as error:
        reason = str(error).removeprefix("Error while deserializing header: ")
        raise damaged(path, f"its header does not describe its content ({reason})") from None
    if wrong := [name for name, dtype in dtypes.items() if dtype not in DTYPES]:
        types = ", ".join(f"{name} of type {dtypes[name]}" for name in wrong[:3])
        raise TensorFileError(f"{path}: take a file of float32, float16 or bfloat16, not {types}.")

    def read(name: str) -> np.ndarray:
        """Opens the file for one tensor: one that stays open holds in memory all that was read."""
        with library.safe_open(path, "numpy") as file:
            return file.get_tensor(name)

    return {name: partial(read, name) for name in dtypes}


def save_tensors(
    path: PathLike, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes a safetensors file; Hugging Face wants the metadata {"format": "pt"}."""
    # The library writes the memory of an array as it lies, whatever its strides say.
    dense = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    write_atomically(path, require("safetensors.numpy").save(dense, metadata))
