"""Local folders: names that the locale cannot hold, owners, and how they are removed."""

import os
import shutil
import sys
import warnings

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


def remove_unfinished(checkpoints: epath.Path) -> None:
    """Removes what saves that did not come to their end left in a local folder of checkpoints."""
    for temporary in checkpoints.glob("*.orbax-checkpoint-tmp"):
        remove_folder(temporary)


def remove_folder(folder: PathLike) -> None:
    """Removes a local folder, if it is there, with all that it holds; warns if that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        warnings.warn(f"{folder} is not needed any more and cannot be removed", stacklevel=2)
