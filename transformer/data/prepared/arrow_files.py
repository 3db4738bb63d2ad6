"""Arrow files that are mapped into memory."""

import ctypes
import mmap
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from transformer.reading import unreadable

ARROW = "arrow"  # the ending of the files
NOTES = b"notes"
MADVISE = ctypes.CDLL(None).madvise
MADVISE.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class DamagedFileError(Exception):
    """A file of a prepared corpus is missing or is not what was written; `args` holds its path."""


def arrow_lists(numbers: np.ndarray, lengths: np.ndarray) -> pa.ListArray:
    """Returns lists of these lengths, which stand one after another in `numbers`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.ListArray.from_arrays(offsets, numbers)


def arrow_bytes(columns: Mapping[str, Any], notes: str = "") -> bytes:
    """Returns the content of a file with these columns, which have the same length."""
    batch = pa.record_batch(columns).replace_schema_metadata({NOTES: notes})
    content = pa.BufferOutputStream()
    with pa.ipc.new_file(content, batch.schema) as writer:
        writer.write_batch(batch)
    return content.getvalue().to_pybytes()


class ArrowFile:
    """A file as of `arrow_bytes`, of which only the pages that are read come into memory."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises DamagedFileError for a file that is missing or cut short, and PassingError."""
        try:
            with pa.memory_map(os.fsencode(path)) as file:
                start = file.read_buffer(1)  # which keeps it mapped when it is closed
                self._content = pa.foreign_buffer(start.address, file.size(), start)
            with pa.ipc.open_file(self._content) as reader:
                self._batch = reader.get_batch(0)
                self.notes = reader.schema.metadata[NOTES].decode()
        except (FileNotFoundError, NotADirectoryError, ValueError, KeyError):
            raise DamagedFileError(path) from None
        except OSError as error:
            raise unreadable(str(path), error) from None
        self.give_back()

    def lists(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Returns a column of lists: (numbers, where each list begins in them and the last ends).

        The lists [7, 8, 2] and [2] are the numbers 7 8 2 2 and the offsets 0 3 4.
        """
        column = self._batch.column(name)
        return column.values.to_numpy(), column.offsets.to_numpy()

    def numbers(self, name: str) -> np.ndarray:
        """Returns a column of numbers."""
        return self._batch.column(name).to_numpy()

    def give_back(self) -> None:
        """Gives up the pages that were read; they are read again from the system's cache of files.

        The resident memory of a process would else grow to the size of the files.
        """
        MADVISE(self._content.address, self._content.size, mmap.MADV_DONTNEED)
