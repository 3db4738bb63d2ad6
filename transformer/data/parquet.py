"""Reads sentence pairs from Parquet files, some rows at a time."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow
from etils import epath
from pyarrow import parquet

from transformer.data import pair_blocks
from transformer.data.pair_blocks import RowBlock

BUFFER = 2**20  # bytes of a column that are read at a time: its part of a row group may be large


class ParquetTable(NamedTuple):
    """A file whose columns are named by the languages, perhaps fields of a column `translation`."""

    file: epath.Path
    source: str
    target: str

    def num_pairs(self) -> int:
        """Returns the number of rows; raises ValueError if the file cannot be read."""
        with self._open() as opened:
            return opened.metadata.num_rows

    def blocks(self, first: int, end: int | None) -> Iterator[RowBlock]:
        """Yields the rows; raises ValueError if there are no such columns."""
        with self._open() as opened:
            num_rows, number = opened.metadata.num_rows, 0
            end = num_rows if end is None else end
            names = self._columns(opened)
            for batch in opened.iter_batches(pair_blocks.PAIRS_OF_BLOCK, columns=names):
                start, stop = max(first - number, 0), min(end - number, len(batch))
                if start < stop:
                    rows = _rows(batch.slice(start, stop - start), names)
                    share = (number + len(batch)) / num_rows
                    yield RowBlock(str(self.file), number + start + 1, rows, share)
                number += len(batch)

    @contextmanager
    def _open(self) -> Generator[Any]:
        try:
            with (
                self.file.open("rb") as file,
                parquet.ParquetFile(file, buffer_size=BUFFER, pre_buffer=False) as opened,
            ):
                yield opened
        except (pyarrow.ArrowException, OSError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{self.file} cannot be read: {reason}.") from None

    def _columns(self, opened: Any) -> list[str]:
        """Returns the names of the columns of the two sides."""
        paths = [opened.schema.column(index).path for index in range(len(opened.schema))]
        wanted = [self.source, self.target]
        for names in (wanted, [f"translation.{name}" for name in wanted]):
            if {*names} <= {*paths}:
                return names
        raise ValueError(
            f"{self.file} must have columns {self.source} and {self.target}, perhaps below "
            f"translation; it has {', '.join(paths)}."
        )


def _rows(batch: Any, names: list[str]) -> list[tuple[object, object]]:
    """Returns the values of two columns. names: as "en", or "translation.en" of a field."""
    table = pyarrow.Table.from_batches([batch]).flatten()
    source, target = (table.column(name).to_pylist() for name in names)
    return list(zip(source, target, strict=True))
