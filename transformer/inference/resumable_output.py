"""A file that appears when all chunks of its job are finished.

Until then the chunks are parts in the folder OUTPUT.parts, named by their numbers and checksums, so
that a job that was stopped, or is shared by several hosts, does no chunk twice.
"""

import json
import os
import shutil
import time
import warnings
from typing import IO, Any

import jax

from transformer.console import quantity
from transformer.exit_codes import ResumableError
from transformer.files import storage
from transformer.files.parts import LOOK_EVERY, Parts, part_name
from transformer.files.reading import reason_of
from transformer.parallel import hosts


class ResumableFile:
    """The output of a job over a file.

    identity: {name: value} of what must be equal for a stopped job to be resumed.
    """

    def __init__(self, output: str, identity: dict[str, Any]) -> None:
        output = output if storage.is_remote(output) else os.path.realpath(output)
        self.output = storage.locate(output)
        self.folder = self.output.with_name(self.output.name + ".parts")
        self._parts, self._about = Parts(self.folder), self.folder / "about.json"
        self._identity = json.loads(json.dumps(identity))
        self._finished: dict[int, str] = {}
        self._lock: IO[str] | None = None
        self._is_open = False

    @property
    def is_started(self) -> bool:
        """Whether a job was stopped, or still runs, that writes this output."""
        return self._about.is_file()

    def open(self) -> int:
        """Opens the folder on all hosts; returns the number of chunks that are finished already.

        Raises ValueError if it is in use, of another job, or another folder on another host.
        """
        if jax.process_index() == 0:
            self._open_folder()
        hosts.wait_for_all("the folder of the output")
        hosts.check_same(
            f"what they are to do, or in what they see in {self.folder}",
            lambda: json.dumps(self._identity).encode() + self._read_about(),
        )
        self._finished = self._parts.finished()
        return len(self._finished)

    def _open_folder(self) -> None:
        if not storage.is_remote(self.folder):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self._lock = storage.take_lock(self.folder / "lock", "--output")
        if not self.is_started:  # what a job that came to its end could not remove
            self._remove_chunks()
        elif self._parts.finished():
            self._check_identity(json.loads(self._read_about()))
        about = self._identity | {"started": time.strftime("%Y-%m-%d %H:%M:%S %Z")}
        storage.write_atomically(self._about, json.dumps(about, indent=2))
        self._is_open = True

    def _read_about(self) -> bytes:
        return self._about.read_bytes() if self.is_started else b""

    def _check_identity(self, before: dict[str, Any]) -> None:
        for name, now in self._identity.items():
            if before.get(name) != now:
                raise ValueError(
                    f"{self.folder} holds chunks made with {name} {before.get(name)}, not {now}: "
                    f"start with the same, name another --output, or delete the folder to begin "
                    f"anew."
                )

    def has(self, number: int, checksum: str) -> bool:
        """Returns whether a chunk is finished; ValueError if it was so for another text."""
        if self._finished.get(number, checksum) != checksum:
            raise self._other_input(f"chunk {number + 1}")
        return number in self._finished

    def _other_input(self, difference: str) -> ValueError:
        return ValueError(
            f"{self.folder} belongs to another input ({difference} differs): use that input, "
            f"choose another --output, or delete the folder to begin anew."
        )

    def write(self, number: int, checksum: str, data: bytes) -> None:
        """Writes the output of a chunk, all of it or nothing."""
        self._parts.write(part_name(number, checksum), data)

    def finish(self, checksums: list[str], empty: bytes, patience: float) -> None:
        """Waits for the chunks of other hosts, joins all and removes them.

        checksums: of all chunks, in order. empty: the content of a file without chunks. patience:
        seconds without a new chunk after which the other hosts are given up (`ResumableError`).
        """
        if jax.process_index() == 0:
            self._wait_for_others(len(checksums), patience)
            self._join(checksums, empty)
            self._about.unlink()  # from now on the job counts as done
        while self.is_started:
            time.sleep(LOOK_EVERY)
        hosts.wait_for_all("the joined file")

    def _wait_for_others(self, num_chunks: int, patience: float) -> None:
        wanted, name = set(range(num_chunks)), "waiting for the other hosts' chunks"
        if missing := self._parts.wait_for(wanted, patience, name):
            raise ResumableError(
                f"{quantity(len(missing), 'chunk')} of other hosts missing in {self.folder}, and "
                f"none came within {patience:.0f} s; start the same command on every host again."
            )

    def _join(self, checksums: list[str], empty: bytes) -> None:
        """Writes the output file; raises ValueError if there are other chunks than `checksums`."""
        if self._parts.finished() != dict(enumerate(checksums)):
            raise self._other_input("its end")
        with storage.open_atomically(self.output) as file:
            file.write(b"" if checksums else empty)
            for number, checksum in enumerate(checksums):
                with (self.folder / part_name(number, checksum)).open("rb") as part:
                    shutil.copyfileobj(part, file, 2**20)

    def close(self) -> None:
        """Unlocks the folder; removes it if the job is done or if no chunk of it is."""
        is_alone = jax.process_count() == 1
        is_needed = self.is_started and (self._parts.finished() or not is_alone)
        try:
            if self._is_open and not is_needed:
                self._remove()
        except OSError as error:  # other files may have been put there
            reason = f"{self.folder} could not be removed: {reason_of(error)}"
            warnings.warn(reason, stacklevel=2)
        finally:
            if self._lock:
                self._lock.close()

    def _remove(self) -> None:
        """Removes our files in the folder, and the folder if there are no others."""
        self._remove_chunks()
        for name in ("about.json", "lock"):
            (self.folder / name).unlink(missing_ok=True)
        if not storage.is_remote(self.folder):
            os.rmdir(self.folder)

    def _remove_chunks(self) -> None:
        for number, checksum in self._parts.finished().items():
            (self.folder / part_name(number, checksum)).unlink(missing_ok=True)
        self._parts.remove_unfinished()
