"""Writes the output of chunks to a stream, or to OUTPUT.parts until all can be joined to a file.

In that folder each finished chunk is a file named by its number and checksum, so that a job that
was stopped, or is shared by several hosts, does no chunk twice.
"""

import errno
import json
import os
import re
import shutil
import stat
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

from etils.epath import PathLike

from transformer import storage
from transformer.console import escaped, is_terminal
from transformer.folders import is_of_stranger
from transformer.inference.chunks import Chunk

PART = re.compile(r"(\d{6,})\.([0-9a-f]{8})")  # number.checksum


class Stream:
    """Standard output, a pipe or a device: what was written cannot be read again."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name

    def has(self, chunk: Chunk) -> bool:
        """Returns False: no output of an earlier start exists."""
        return False

    def write(self, chunk: Chunk, data: bytes) -> None:
        """Writes and flushes at once; on a terminal, control characters are escaped."""
        if is_terminal(self._file):
            data = escaped(data.decode()).encode()
        with _explain_errors(self._name):
            self._file.write(data)
            self._file.flush()


def open_stream(output: str) -> Stream | None:
    """Opens `output` ("" is standard output) if it is a stream; None if it is a file, or new."""
    if not output:
        if sys.stdout is None:
            raise ValueError("Standard output is closed; name a file with --output.")
        return Stream(sys.stdout.buffer, "Standard output")
    if storage.is_remote(output) or not os.path.exists(output):
        return None
    if stat.S_ISREG(os.stat(output).st_mode):
        return None
    with _explain_errors(output):
        return Stream(open(output, "wb"), output)


class Parts:
    """The finished chunks of an output file, in the folder OUTPUT.parts.

    identity: {name: value} of what must be equal for a stopped job to be resumed.
    """

    def __init__(self, output: str, identity: dict[str, Any]) -> None:
        output = output if storage.is_remote(output) else os.path.realpath(output)
        self.output = storage.locate(output)
        self.folder = self.output.with_name(self.output.name + ".parts")
        self._identity = json.loads(json.dumps(identity))
        self._finished: dict[int, str] = {}
        self._lock: IO[str] | None = None
        self._is_open = False

    def open(self) -> None:
        """Makes the folder or opens it again; ValueError if it is in use or of another job."""
        with _explain_errors(self.folder):
            if storage.is_remote(self.folder):
                self.folder.mkdir(exist_ok=True)
            else:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                if is_of_stranger(self.folder):
                    raise ValueError(f"{self.folder} is of another user: name another --output.")
                self._lock = storage.take_lock(self.folder / "lock", "--output")
            if self.finished():
                self._check_identity()
            about = self._identity | {"started": time.strftime("%Y-%m-%d %H:%M:%S %Z")}
            storage.write_atomically(self.folder / "about.json", json.dumps(about, indent=2))
            self._is_open = True

    def _check_identity(self) -> None:
        before = json.loads(self._about() or "{}")
        for name, now in self._identity.items():
            if before.get(name) != now:
                raise ValueError(
                    f"{self.folder} holds chunks made with {name} {before.get(name)}, not {now}: "
                    f"start with the same, name another --output, or delete the folder to begin "
                    f"anew."
                )

    def shared_state(self) -> bytes:
        """Returns bytes that are equal on all hosts of a job if they share the folder."""
        return self._about() + json.dumps(self._identity).encode()

    @property
    def is_started(self) -> bool:
        """Whether a job was stopped, or still runs, that writes this output."""
        return (self.folder / "about.json").is_file()

    def _about(self) -> bytes:
        return (self.folder / "about.json").read_bytes() if self.is_started else b""

    @property
    def is_joined(self) -> bool:
        """Whether the output file is complete, and only the folder has not been removed yet."""
        return (self.folder / "joined").is_file()

    def finished(self) -> dict[int, str]:
        """Reads which chunks are finished: {number: checksum}."""
        if self.is_joined:
            return dict(enumerate(json.loads((self.folder / "joined").read_text())))
        names = (PART.fullmatch(name) for name in self._names())
        return {int(name[1]): name[2] for name in names if name}

    def _names(self) -> list[str]:
        try:
            return sorted(path.name for path in self.folder.iterdir())
        except FileNotFoundError:  # as an object store has no empty folders
            return []

    def resume(self, finished: dict[int, str]) -> None:
        """Sets what `has` counts as finished; every host of a job must be given the same."""
        self._finished = finished

    def has(self, chunk: Chunk) -> bool:
        """Returns whether a chunk is finished; ValueError if it was so for another text."""
        checksum = self._finished.get(chunk.number)
        if checksum not in (None, chunk.checksum):
            raise ValueError(self._another_text(f"lines {chunk.start + 1:,} to {chunk.end:,}"))
        return checksum is not None

    def _another_text(self, lines: str) -> str:
        return (
            f"{self.folder} holds the output for another text ({lines} differ): give the same, "
            f"name another --output, or delete the folder to begin anew."
        )

    def write(self, chunk: Chunk, data: bytes) -> None:
        """Writes the output of a chunk, all of it or nothing."""
        path = self._path(chunk.number, chunk.checksum)
        with _explain_errors(path, "; the chunks before it are kept"):
            storage.write_atomically(path, data)

    def _path(self, number: int, checksum: str) -> Any:
        return self.folder / f"{number:06}.{checksum}"

    def missing(self, checksums: list[str]) -> list[int]:
        """Returns the numbers of unfinished chunks; checksums: of all chunks, in order.

        Raises ValueError if one of them was finished for another text.
        """
        finished = self.finished()
        missing = [
            number for number, value in enumerate(checksums) if finished.get(number) != value
        ]
        if finished.keys() & missing:
            raise ValueError(self._another_text("some lines"))
        return missing

    def join(self, checksums: list[str], empty: bytes = b"") -> None:
        """Writes the output file from the parts of `checksums`, in order.

        empty: the content of a file without parts. Raises ValueError if there are other parts.
        """
        if self.finished() != dict(enumerate(checksums)):
            raise ValueError(self._another_text("the last lines"))
        if self.is_joined:
            return
        kept = "; all chunks are kept, and the file needs as much space again"
        with _explain_errors(self.output, kept):
            with storage.open_atomically(self.output) as file:
                file.write(b"" if checksums else empty)
                for number, checksum in enumerate(checksums):
                    with self._path(number, checksum).open("rb") as part:
                        shutil.copyfileobj(part, file, 2**20)
            storage.write_atomically(self.folder / "joined", json.dumps(checksums))

    def close(self, *, is_alone: bool) -> None:
        """Unlocks the folder; removes it if no chunk is finished and no other host uses it."""
        if self._is_open and is_alone and not self.finished():
            self.remove()
        if self._lock:
            self._lock.close()

    def remove(self) -> None:
        """Removes our files in the folder, parts first: the job counts as done until the end."""
        ours = re.compile(PART.pattern + r"(\.tmp)?")
        names = [name for name in self._names() if ours.fullmatch(name)]
        for name in [*names, "joined", "about.json", "lock"]:
            (self.folder / name).unlink(missing_ok=True)
        self._is_open = False
        if storage.is_remote(self.folder):
            with suppress(OSError, ValueError):  # where a folder is nothing but its files
                self.folder.rmdir()
            return
        try:
            os.rmdir(self.folder)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:  # other files may have been put there
                warnings.warn(f"{self.folder} could not be removed: {error.strerror}", stacklevel=2)


@contextmanager
def _explain_errors(path: PathLike, and_then: str = "") -> Iterator[None]:
    """Turns an OSError into a ValueError of one sentence; a closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            and_then += "; free some space and start the same command again"
        raise ValueError(f"{path} cannot be written ({reason}){and_then}.") from None
