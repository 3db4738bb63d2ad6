"""What a job over a text file is: lines are read in chunks, and each chunk gives some output."""

import gzip
import lzma
import os
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, Generic, TypeVar

from transformer.checkpoint.fingerprint import fingerprints
from transformer.data.files.text import Lines, count_lines, open_lines
from transformer.files import storage
from transformer.inference.chunks import CHUNK_LINES, Chunk, check_equal, read_chunks, stream_sizes
from transformer.inference.predictor import Predictor

ModelT = TypeVar("ModelT")
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": partial(gzip.compress, compresslevel=6, mtime=0),
    ".xz": lzma.compress,
}


def make_compressor(output: str) -> Callable[[bytes], bytes]:
    """Returns a function that compresses bytes as the suffix of the file name `output` says.

    The results for several chunks, one after another, are a valid file.
    """
    return COMPRESSORS.get(Path(output).suffix, bytes)


@dataclass(frozen=True)
class FileJob(ABC, Generic[ModelT]):
    """A text, where the output goes, and how a `ModelT` makes that of a chunk of lines.

    input, output: files, local or gs://, also .gz and .xz; input "-" is standard input and output
      "" standard output.
    chunk_lines: lines that are computed together and kept when the job is stopped.
    """

    input: str
    output: str = ""
    chunk_lines: int = CHUNK_LINES

    @property
    def files(self) -> list[str]:
        """The files that are read: the input first, and then one whose lines pair with its."""
        return [self.input]

    def check(self) -> None:
        """Raises ValueError for files that cannot be written or do not pair."""
        output = self.output
        if output and not storage.is_remote(output):
            folder = os.path.dirname(os.path.realpath(output))
            if os.path.isdir(output) or not os.path.isdir(folder):
                raise ValueError(f"--output must be a file in a folder that exists, not {output}.")
        if len(self.files) == 2:
            counts = [count_lines(path) for path in self.files]
            if counts[0] is not None and counts[1] is not None:
                check_equal(self.files[0], counts[0], self.files[1], counts[1])

    def check_options(self, model: ModelT) -> None:
        """Raises ValueError for options that the model refuses."""

    def open(self) -> list[Lines]:
        """Opens every file that is read."""
        return [open_lines(path) for path in self.files]

    def read_chunks(self, files: list[Lines]) -> Iterator[Chunk]:
        """Yields the chunks of the opened files; the first are small if a reader may wait."""
        sizes = repeat(self.chunk_lines)
        if not self.output:
            is_terminal = self.input == "-" and sys.stdin and sys.stdin.isatty()
            sizes = repeat(1) if is_terminal else stream_sizes(self.chunk_lines)
        return read_chunks(*files, sizes=sizes)

    def run_chunk(self, model: ModelT, chunk: Chunk) -> tuple[bytes, int]:
        """Returns (lines of output for a chunk, number of target tokens in them, 0 if unknown).

        Raises ValueError, naming the lines of the chunk, for what the model refuses.
        """
        try:
            return self._output(model, chunk)
        except ValueError as error:
            lines = f"{self.input}, lines {chunk.start + 1:,} to {chunk.end:,}"
            raise ValueError(f"{lines}: {error}") from None

    def identity(self, model: ModelT) -> dict[str, Any]:
        """Returns {name: value} of everything, besides the text, that the output depends on.

        A stopped job is resumed only if all of it is the same.
        """
        return {
            **self._identity(model),
            "chunk_lines": self.chunk_lines,
            "packed as": suffix if (suffix := Path(self.output).suffix) in COMPRESSORS else "",
        }

    @abstractmethod
    def _output(self, model: ModelT, chunk: Chunk) -> tuple[bytes, int]:
        """Returns what `run_chunk` does; a ValueError need not name the lines."""

    @abstractmethod
    def _identity(self, model: ModelT) -> dict[str, Any]:
        """Returns what `identity` does, without the fields of this class."""


def identity_of(predictor: Predictor) -> dict[str, Any]:
    """Returns {name: value} of everything of a run on which its outputs depend."""
    values, names = predictor.config.values(), predictor.labels.names
    model = {k: v for k, v in values.items() if k.startswith("model.") or k == "data.row_length"}
    return {
        "checkpoint": predictor.run.checkpoint,
        "parameters": zlib.crc32(repr(fingerprints(predictor.params)).encode()),
        "model": zlib.crc32(repr(model).encode()),
        "vocabulary": [zlib.crc32(tokenizer.to_bytes()) for tokenizer in predictor.tokenizers],
        **({"classes": zlib.crc32(repr(names).encode())} if names else {}),
    }
