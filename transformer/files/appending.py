"""Files that are appended to, in a folder or in an object store, which knows no appending."""

import os
from contextlib import suppress

from etils import epath

from transformer.console import say
from transformer.files.storage import PathLike, is_remote


class GrowingFile:
    """A file to append to. What cannot be written is kept, and written at the next flush."""

    def __init__(self, path: PathLike) -> None:
        self._path, self._pending = epath.Path(path), b""

    def write(self, data: bytes) -> None:
        """Appends bytes, to be written at the next `flush`."""
        self._pending += data

    def flush(self) -> None:
        """Writes all that is pending, or nothing of it; raises OSError, which names the file.

        An object is written anew with what it held: Cloud Storage slows down a caller that does so
        every second.
        """
        if self._pending and is_remote(self._path):
            before = self._path.read_bytes() if self._path.is_file() else b""
            self._path.write_bytes(before + self._pending)
        elif self._pending:
            self._append(self._pending)
        self._pending = b""

    close = flush

    def _append(self, data: bytes) -> None:
        with open(self._path, "ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError as error:
                with suppress(OSError):  # else what comes next would follow half a line
                    file.truncate(end)
                raise OSError(error.errno, error.strerror, os.fspath(self._path)) from None


class GrowingFiles:
    """The files of a folder that are appended to, by their names."""

    def __init__(self, folder: epath.Path) -> None:
        self._folder = folder
        self._files: dict[str, GrowingFile] = {}
        self._failure = ""  # of the last flush, which was said

    def append(self, name: str, text: str) -> None:
        """Appends to a file; says if one cannot be written, and tries again the next time."""
        self.add(name, text)
        failure = ""
        try:
            self.flush()
        except Exception as error:  # any type: those of Cloud Storage are no OSError
            failure = f"{self._folder} cannot be written to: {error}"
            if failure != self._failure:
                say(f"warning: {failure}; it is tried again with the next lines")
        self._failure = failure

    def add(self, name: str, text: str) -> None:
        """Keeps text for the next `flush`."""
        if name not in self._files:
            self._files[name] = GrowingFile(self._folder / name)
        self._files[name].write(text.encode())

    def flush(self, *names: str) -> None:
        """Writes what was added to the files of these names, or to all.

        Raises the first error, after the other files have been written.
        """
        errors: list[Exception] = []
        for name, file in list(self._files.items()):
            try:
                if not names or name in names:
                    file.flush()
            except Exception as error:  # any type
                errors.append(error)
        if errors:
            raise errors[0]

    def forget(self, name: str) -> None:
        """Drops what is pending for a file, which something else has written."""
        self._files.pop(name, None)
