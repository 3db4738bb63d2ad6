"""Files of a run, in a local folder or in an object store (gs://), which has no appending or locks.

A path is an `etils.epath.Path`, as in Orbax; gcsfs (the extra `gcs`) reads and writes gs://.
"""

import fcntl
import importlib.util
import os
import pathlib
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO

from etils import epath
from etils.epath import gpath

PathLike = str | os.PathLike[str]
# Settings of the libraries behind gs://, which read them when they are imported or first used.
CLOUD_ENVIRONMENT = {
    "EPATH_USE_TF": "false",  # TensorFlow, where installed, would be imported and may lack gs://
    "GCE_METADATA_DETECT_RETRIES": "2",  # a virtual machine's account is looked for 3 s each time
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # gRPC, which not every network lets through
}


def locate(name: PathLike) -> epath.Path:
    """Returns the path of a local name (~ is the home) or gs://BUCKET/NAME.

    Raises ValueError for any other scheme, and for gs:// if its libraries are not installed.
    """
    scheme, separator, _ = os.fspath(name).partition("://")
    if not separator:
        return epath.Path(name).expanduser()
    if scheme != "gs" or len(epath.Path(name).parts) < 4:
        raise ValueError(f"{name} must be a local path or gs://BUCKET/NAME.")
    for variable, value in CLOUD_ENVIRONMENT.items():
        os.environ.setdefault(variable, value)
    with suppress(AttributeError):  # epath remembers the answer, of local paths too
        gpath._is_tf_installed.cache_clear()
    if importlib.util.find_spec("gcsfs") is None:
        raise ValueError("gs:// needs the package gcsfs: pip install -e '.[gcs]'")
    import fsspec.config

    # gcsfs would not see what tensorstore writes, were it to remember what it has listed.
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False
    return epath.Path(name)


def is_remote(path: PathLike) -> bool:
    """Whether a path is in an object store."""
    return str(path).startswith("gs://")


def absolute(path: PathLike) -> epath.Path:
    """Returns the path from the root on, as Orbax needs it."""
    return epath.Path(path) if is_remote(path) else epath.Path(pathlib.Path(path).absolute())


def write_atomically(path: PathLike, content: str | bytes, writer: str = "") -> None:
    """Writes a file so that a reader, or a crash, sees the old one or the new one, never a mix."""
    with open_atomically(path, writer) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def open_atomically(path: PathLike, writer: str = "") -> Generator[IO[bytes]]:
    """Opens a file for writing bytes; it replaces `path` at the end of the block.

    If the block raises, `path` stays as it was. writer: what tells this process from others that
    may write the same file at once; the last of them to end replaces the others' file.
    """
    path = epath.Path(path)
    if is_remote(path):
        file: Any = path.open("wb")  # the object appears when it is closed
        try:
            yield file
        except BaseException:
            file.discard()
            file.closed = True  # else the garbage collector would close it, which uploads it
            raise
        file.close()
        return
    temporary = path.with_name(f"{path.name}{writer}.tmp")
    try:
        with suppress(FileNotFoundError):  # what a killed process left, or a link laid there
            os.unlink(temporary)
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name without content
        os.replace(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError) and error.errno and not error.filename:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def take_lock(path: epath.Path, flag: str) -> TextIO:
    """Returns the open file at `path`, locked until it is closed or this process ends.

    flag: the command-line flag that would name another folder. Raises ValueError, with that flag
    and the owner of the lock, if another process has it.
    """
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise ValueError(
            f"{path.parent} is in use by {owner}; wait for it, stop it, or name another {flag}."
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    return file
