"""A durable list of parts: numbered files of a folder, each there as a whole or not at all.

Work that takes long is cut into parts by its input alone, and a part has the same bytes whoever
writes it. So there is no lock: whoever finds that a part is missing may write it, and of two who
write the same one the last to end replaces the other's file. Work that was killed goes on with the
parts that are missing.
"""

import re
import time
import uuid
import warnings
from contextlib import suppress

from etils import epath

from transformer.console import phase
from transformer.files import storage

PART = re.compile(r"(\d{6,})\.([^.]+)")
LOOK_EVERY = 0.2  # seconds between two looks at what others have written


def part_name(number: int, ending: str) -> str:
    """Returns the name of a part's file, as 000012.arrow.

    The ending may hold what the part depends on, as a checksum of what it was made of.
    """
    return f"{number:06}.{ending}"


class Parts:
    """The parts in a folder, which may hold other files besides."""

    def __init__(self, folder: epath.Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes) -> None:
        """Writes a file, all of it or nothing; others may write the same one at once."""
        storage.write_atomically(self.folder / name, content, f".{uuid.uuid4().hex}")

    def finished(self) -> dict[int, str]:
        """Returns {number: ending} of the parts that are there."""
        files: list[epath.Path] = []
        with suppress(FileNotFoundError):  # an object store has no empty folders
            files = list(self.folder.iterdir())
        found = (PART.fullmatch(file.name) for file in files)
        return {int(match[1]): match[2] for match in found if match}

    def wait_for(self, wanted: set[int], patience: float, name: str) -> set[int]:
        """Waits for parts that others write; returns those that are missing nevertheless.

        patience: seconds without a new part after which the others are given up. name: of the phase
        that shows how many are there.
        """
        missing, last_change = wanted - self.finished().keys(), time.monotonic()
        with phase(name, len(wanted)) as this:
            while missing and time.monotonic() - last_change < patience:
                this.num_done = len(wanted) - len(missing)
                time.sleep(LOOK_EVERY)
                left = wanted - self.finished().keys()
                if left != missing:
                    missing, last_change = left, time.monotonic()
        return missing

    def remove_unfinished(self) -> None:
        """Removes what writers that were killed have left."""
        for file in self.folder.glob("*.tmp"):
            file.unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes the folder with all that it holds; warns if that fails."""
        with suppress(OSError):
            self.folder.rmtree(missing_ok=True)
        if self.folder.exists():
            said = f"{self.folder} is not needed any more and cannot be removed"
            warnings.warn(said, stacklevel=2)
