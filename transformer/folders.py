"""What can go wrong with a local folder: the locale cannot hold its name, or it is moved away."""

import os
import shutil
import sys
import warnings
from contextlib import suppress

from etils import epath
from etils.epath import PathLike


def check_name(path: epath.Path) -> None:
    """Raises ValueError for a local folder that Orbax would take for another one.

    It writes names in UTF-8, whatever encoding the locale makes Python use.
    """
    encoding = sys.getfilesystemencoding()
    name = os.fspath(path)
    if encoding == "utf-8" or name.startswith("gs://") or os.path.abspath(name).isascii():
        return
    text = os.fsencode(name).decode(errors="replace")
    raise ValueError(f"{text}: names of files are {encoding} in this locale; set PYTHONUTF8=1.")


class FolderMovedError(ValueError):
    """A folder is not where it was."""


class FolderInPlace:
    """A folder that is there now; `check` tells when it is another one, or none."""

    def __init__(self, path: epath.Path) -> None:
        self._path, self._identity = path, self._look(path)

    def check(self) -> None:
        """Raises FolderMovedError if the folder was renamed or deleted.

        What is written then would make a new folder with half of a run.
        """
        if self._look(self._path) != self._identity:
            raise FolderMovedError(
                f"{self._path} was renamed or deleted while the run trained in it. Put the folder "
                f"back, or name its new place with --workdir: the run goes on from its last "
                f"checkpoint there."
            )

    def remove_remains(self) -> None:
        """Removes what a save that was under way made anew where the folder was."""
        if (
            self._look(self._path) in (None, self._identity)
            or (self._path / "config.json").exists()
        ):
            return
        remove_unfinished(self._path / "checkpoints")
        with suppress(OSError):  # there is something else in it
            os.rmdir(self._path / "checkpoints")
            os.rmdir(self._path)

    @staticmethod
    def _look(path: epath.Path) -> tuple[int, int] | None:
        """Returns device and inode of a folder; None if it is not there."""
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(path)
            return status.st_dev, status.st_ino
        return None


def remove_unfinished(checkpoints: epath.Path) -> None:
    """Removes what saves that did not come to their end left in a local folder of checkpoints."""
    for temporary in checkpoints.glob("*.orbax-checkpoint-tmp"):
        remove_folder(temporary)


def remove_folder(folder: PathLike) -> None:
    """Removes a local folder, if it is there, with all that it holds; warns if that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        warnings.warn(f"{folder} is not needed any more and cannot be removed", stacklevel=2)
