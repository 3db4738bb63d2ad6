"""Files that are appended to, in a folder or in an object store, which knows no appending."""

import os
from contextlib import suppress

from etils import epath

from transformer.console import say
from transformer.files.storage import is_remote


def append_bytes(path: epath.Path, data: bytes) -> None:
    """Appends all of `data` to a file, or nothing of it; raises OSError, which names the file.

    An object is written anew with what it held: Cloud Storage slows down a caller that does so
    every second.
    """
    if is_remote(path):
        path.write_bytes((path.read_bytes() if path.is_file() else b"") + data)
        return
    with open(path, "ab", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        try:
            while data:
                data = data[file.write(data) :]
        except OSError as error:
            with suppress(OSError):  # else what comes next would follow half a line
                file.truncate(end)
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None


class GrowingFiles:
    """Files of a folder that are appended to. What cannot be written waits for the next flush."""

    def __init__(self, folder: epath.Path) -> None:
        self._folder = folder
        self._pending: dict[str, bytes] = {}  # by the names of the files
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

    def add(self, name: str, content: str | bytes) -> None:
        """Keeps text or bytes for the next `flush`."""
        data = content.encode() if isinstance(content, str) else content
        self._pending[name] = self._pending.get(name, b"") + data

    def flush(self, *names: str) -> None:
        """Writes what was added to the files of these names, or to all.

        Raises the first error, after the other files have been written.
        """
        errors: list[Exception] = []
        for name in [name for name in self._pending if not names or name in names]:
            try:
                append_bytes(self._folder / name, self._pending[name])
                del self._pending[name]
            except Exception as error:  # any type
                errors.append(error)
        if errors:
            raise errors[0]

    def forget(self, name: str) -> None:
        """Drops what waits for a file, which something else has written."""
        self._pending.pop(name, None)
