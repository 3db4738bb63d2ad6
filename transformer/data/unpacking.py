"""Tells a compressed text from a file that was made to fill a memory."""

import io
from typing import IO

CHECK_EVERY = 2**22  # bytes of a text between two looks at how well it was packed
MOST_UNPACKED = 500  # bytes of text from a byte of a packed file; usual are 3 to 10
BinaryFile = IO[bytes] | io.BufferedIOBase


def check_unpacked(name: str, file: BinaryFile, raw: BinaryFile) -> None:
    """Raises ValueError if what was read is far more than any text of this size unpacks to.

    gzip makes a thousandth of a file of zeros, xz less. file: unpacks `raw`; both the same if it is
    not compressed.
    """
    if raw is file:
        return
    size = file.tell()
    if size > CHECK_EVERY and size > MOST_UNPACKED * raw.tell():
        raise ValueError(
            f"{name} unpacks to more than {MOST_UNPACKED} times its size, which no text does; "
            f"unpack it first if that is meant."
        )
