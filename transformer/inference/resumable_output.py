"""Where the translations of chunks go: to a stream, or to OUTPUT.parts until all can be joined.

There each finished chunk has a file of its own, named by its number and its checksum, so that a
job which was stopped, or is shared by several hosts, does none of them twice.
"""

import errno
import json
import os
import re
import shutil
import stat
import sys
import time
from contextlib import contextmanager, suppress

from transformer import storage

PART = re.compile(r"(\d{6,})\.([0-9a-f]{8})")  # number, checksum


class Stream:
    """Standard output, or a file that is no file (a pipe, a device): what is written is gone."""

    def __init__(self, file, name):
        self._file, self._name = file, name

    def has(self, chunk):
        """Whether it is finished already, which never is so here."""
        return False

    def write(self, chunk, data):
        """Writes bytes, and sees that their reader gets them now."""
        with _explained(self._name):
            self._file.write(data)
            self._file.flush()


def open_stream(output):
    """The `Stream` behind a name, "" being standard output; None if it is a file or can be one."""
    if not output:
        if sys.stdout is None:
            raise ValueError("Standard output is closed; name a file with --output.")
        return Stream(sys.stdout.buffer, "Standard output")
    if storage.is_remote(output) or not os.path.exists(output):
        return None
    if stat.S_ISREG(os.stat(output).st_mode):
        return None
    with _explained(output):
        return Stream(open(output, "wb"), output)


class Parts:
    """The finished chunks of a file. settings: {name: value} of what must be the same to go on."""

    def __init__(self, output, settings):
        output = output if storage.is_remote(output) else os.path.realpath(output)
        self.output = storage.locate(output)
        self.folder = self.output.with_name(self.output.name + ".parts")
        self._settings = json.loads(json.dumps(settings))
        self._finished, self._lock, self._is_open = {}, None, False

    def open(self):
        """Makes the folder, or opens it again; refuses one that is in use or of another job."""
        with _explained(self.folder):
            self.folder.mkdir(exist_ok=True)
            if not storage.is_remote(self.folder):
                self._lock = storage.take_lock(self.folder / "lock", "--output")
            if self.finished():
                self._check_settings()
            about = self._settings | {"started": time.strftime("%Y-%m-%d %H:%M:%S %Z")}
            storage.write_atomically(self.folder / "about.json", json.dumps(about, indent=2))
            self._is_open = True

    def _check_settings(self):
        there = json.loads(self._about() or "{}")
        for name, here in self._settings.items():
            if there.get(name) != here:
                raise ValueError(
                    f"{self.folder} holds chunks made with {name} {there.get(name)}, not {here}: "
                    f"start with the same, name another --output, or delete the folder to begin "
                    f"anew."
                )

    def identity(self):
        """Bytes that are alike for all hosts of a job, if they share the folder."""
        return self._about() + json.dumps(self._settings).encode()

    def _about(self):
        path = self.folder / "about.json"
        return path.read_bytes() if path.is_file() else b""

    @property
    def is_joined(self):
        """Whether the file has been written, and only the folder is still here."""
        return (self.folder / "joined").is_file()

    def finished(self):
        """{number: checksum} of the chunks that are done."""
        if self.is_joined:
            return dict(enumerate(json.loads((self.folder / "joined").read_text())))
        names = (PART.fullmatch(name) for name in self._names())
        return {int(name[1]): name[2] for name in names if name}

    def _names(self):
        try:
            return sorted(path.name for path in self.folder.iterdir())
        except FileNotFoundError:  # as an object store has no empty folders
            return []

    def resume(self, finished):
        """Takes these as done from here on; every host of a job must be given the same."""
        self._finished = finished

    def has(self, chunk):
        """Whether a chunk is done; ValueError if what has been done is of another text."""
        there = self._finished.get(chunk.number)
        if there not in (None, chunk.checksum):
            raise ValueError(self._another_text(f"lines {chunk.start + 1:,} to {chunk.end:,}"))
        return there is not None

    def _another_text(self, place):
        return (
            f"{self.folder} holds translations of another text ({place} differ): give the same, "
            f"name another --output, or delete the folder to begin anew."
        )

    def write(self, chunk, data):
        """Keeps the translations of a chunk: all of them or none."""
        path = self._path(chunk.number, chunk.checksum)
        with _explained(path, "; the chunks before it are kept"):
            storage.write_atomically(path, data)

    def _path(self, number, checksum):
        return self.folder / f"{number:06}.{checksum}"

    def missing(self, checksums):
        """The numbers of the chunks that are not done yet, of all `checksums` in order."""
        there = self.finished()
        missing = [number for number, value in enumerate(checksums) if there.get(number) != value]
        if there.keys() & missing:
            raise ValueError(self._another_text("some lines"))
        return missing

    def join(self, checksums, empty=b""):
        """Writes the file from its parts, the checksums in order. empty: a file without any."""
        if self.finished() != dict(enumerate(checksums)):
            raise ValueError(self._another_text("the last lines"))
        if self.is_joined:
            return
        kept = "; all chunks are kept, and the file needs as much room again"
        with _explained(self.output, kept):
            with storage.open_atomically(self.output) as file:
                file.write(b"" if checksums else empty)
                for number, checksum in enumerate(checksums):
                    with self._path(number, checksum).open("rb") as part:
                        shutil.copyfileobj(part, file, 2**20)
            storage.write_atomically(self.folder / "joined", json.dumps(checksums))

    def close(self, *, is_alone):
        """Lets others open the folder; if no other host uses it, it goes with nothing done yet."""
        if self._is_open and is_alone and not self.finished():
            self.remove()
        if self._lock:
            self._lock.close()

    def remove(self):
        """Removes what is ours in the folder, parts first: the job counts as done until the end."""
        ours = re.compile(PART.pattern + r"(\.tmp)?")
        names = [name for name in self._names() if ours.fullmatch(name)]
        for name in [*names, "joined", "about.json", "lock"]:
            (self.folder / name).unlink(missing_ok=True)
        self._is_open = False
        with suppress(OSError, ValueError):  # somebody else's file is in it, or it is on gs://
            self.folder.rmdir()


@contextmanager
def _explained(path, and_then=""):
    """What the system refuses becomes one sentence; a reader who has gone is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        reason = error.strerror or " ".join(str(error).split())
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            and_then += "; make room and start the same command again"
        raise ValueError(f"{path} cannot be written ({reason}){and_then}.") from None
