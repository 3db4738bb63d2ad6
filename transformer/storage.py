"""Files of a run, in a local folder or in an object store (gs://), which has no appending or locks.

A path is an `etils.epath.Path`, as in Orbax; gcsfs (the extra `gcs`) reads and writes gs://.
"""

import fcntl
import os
import pathlib
import queue
import re
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TextIO

from etils import epath
from etils.epath import gpath

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # pyrefly: ignore[missing-import]

PathLike = str | os.PathLike[str]
ANSWER_TIMEOUT = 8.0  # seconds for the object store's first answer
# Orbax asks for the bucket itself, which the first role alone does not allow.
ROLES = "roles/storage.objectAdmin and roles/storage.legacyBucketReader"
# Settings of the libraries behind gs://, which read them when they are imported or first used.
CLOUD_ENVIRONMENT = {
    "EPATH_USE_TF": "false",  # TensorFlow, where installed, would be imported and may lack gs://
    "GCE_METADATA_DETECT_RETRIES": "2",  # a virtual machine's account is looked for 3 s each time
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # gRPC, which not every network lets through
}

_readable_buckets: set[str] = set()  # that have answered this process


def locate(name: PathLike) -> epath.Path:
    """Returns the path of a local name (~ is the home) or gs://BUCKET/NAME.

    Raises ValueError in one sentence if a gs:// path cannot be read, or for any other scheme.
    """
    scheme, separator, _ = os.fspath(name).partition("://")
    if not separator:
        return epath.Path(name).expanduser()
    path = epath.Path(name) if scheme == "gs" else None
    if path is None or len(path.parts) < 4:
        raise ValueError(f"{name} must be a local path or gs://BUCKET/NAME.")
    _check_readable(path)
    return path


def is_remote(path: PathLike) -> bool:
    """Whether a path is in an object store."""
    return str(path).startswith("gs://")


def absolute(path: PathLike) -> epath.Path:
    """Returns the path from the root on, as Orbax needs it."""
    return epath.Path(path) if is_remote(path) else epath.Path(pathlib.Path(path).absolute())


def check_writable(path: epath.Path) -> None:
    """Raises ValueError in one sentence if nothing can be written or deleted below gs://…"""

    def write(bucket: "Bucket", prefix: str) -> None:
        blob = bucket.blob(f"{prefix}write_check")
        blob.upload_from_string(b"")
        blob.delete()

    _ask(path, write)


def write_atomically(path: PathLike, content: str | bytes, writer: str = "") -> None:
    """Writes a file so that a reader, or a crash, sees the old one or the new one, never a mix.

    writer: as of `open_atomically`.
    """
    content = content.encode() if isinstance(content, str) else content
    with open_atomically(path, writer) as file:
        file.write(content)


@contextmanager
def open_atomically(path: PathLike, writer: str = "") -> Generator[IO[bytes]]:
    """Opens a file for writing bytes; it replaces `path` at the end of the block.

    If the block raises, `path` stays as it was. writer: what tells this process from others that
    may write the same file at once; the last of them to end replaces the others' file.
    """
    path = epath.Path(path)
    if is_remote(path):
        yield from _open_object_atomically(path)
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


def _open_object_atomically(path: epath.Path) -> Generator[IO[bytes]]:
    """Opens an object, which appears when its file is closed and is discarded after an error."""
    file: Any = path.open("wb")
    try:
        yield file
    except BaseException:
        file.discard()
        file.closed = True  # else the garbage collector would close it, which uploads it
        raise
    file.close()


def take_lock(path: epath.Path, flag: str) -> TextIO:
    """Returns the open file at `path`, locked until it is closed or this process ends.

    flag: the command-line flag that would name another folder. Raises ValueError, with that flag
    and the owner of the lock, if another process has it.
    """
    file, owner = try_lock(path)
    if file is None:
        raise ValueError(
            f"{path.parent} is in use by {owner}; wait for it, stop it, or name another {flag}."
        )
    return file


def try_lock(path: epath.Path) -> tuple[TextIO | None, str]:
    """Returns (the open file, locked as by `take_lock`; ""), or (None, the process that has it)."""
    file = open(path, "a+", encoding="utf-8")  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        return None, owner
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    return file, ""


# ---- the first request to an object store, with errors that a user can act on


def _check_readable(path: epath.Path) -> None:
    """Raises ValueError if the bucket of a path cannot be read; asks once for each bucket."""

    def read(bucket: "Bucket", prefix: str) -> None:
        list(bucket.list_blobs(prefix=prefix, max_results=1))

    if path.parts[2] in _readable_buckets:
        return
    for name, value in CLOUD_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with suppress(AttributeError):  # epath remembers the answer, of local paths too
        gpath._is_tf_installed.cache_clear()
    _ask(path, read)
    import fsspec.config

    # gcsfs would not see what tensorstore writes, were it to remember what it has listed.
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False
    _readable_buckets.add(path.parts[2])


def _ask(path: epath.Path, request: "Callable[[Bucket, str], None]") -> None:
    """Calls `request(bucket, prefix)`; raises ValueError if it fails or takes too long."""
    try:
        import gcsfs  # noqa: F401  # pyrefly: ignore[missing-import]
        from google.cloud import storage  # pyrefly: ignore[missing-module-attribute]
    except ImportError:
        raise ValueError(f"{path} needs the package gcsfs: pip install -e '.[gcs]'") from None
    answers: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            # Orbax, too, asks for the bucket itself, to learn its kind.
            request(storage.Client().get_bucket(path.parts[2]), "/".join(path.parts[3:]) + "/")
            answers.put(None)
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()  # no timeout of the client bounds all of it
    try:
        error = answers.get(timeout=ANSWER_TIMEOUT)
    except queue.Empty:
        error = TimeoutError(f"no answer within {ANSWER_TIMEOUT:g} s")
    if error:
        raise ValueError(_explain(path, error)) from None


def _explain(path: epath.Path, error: Exception) -> str:
    """Returns the sentence that says what to do about an error of the object store."""
    # pyrefly: ignore[missing-import]
    from google.api_core.exceptions import Forbidden, NotFound, Unauthorized

    # pyrefly: ignore[missing-import]
    from google.auth.exceptions import DefaultCredentialsError, RefreshError

    log_in = "gcloud auth application-default login, or GOOGLE_APPLICATION_CREDENTIALS=FILE"
    text = " ".join(str(error).split())
    if isinstance(error, DefaultCredentialsError):
        return f"{path} needs a Google account with {ROLES}: {log_in}."
    if isinstance(error, RefreshError | Unauthorized):
        return f"{path}: the Google account is not accepted ({text[:300]}): {log_in}."
    if isinstance(error, NotFound):
        return f"{path}: there is no bucket {path.parts[2]}; make it, or name another."
    if isinstance(error, Forbidden):
        denied = re.search(r"(Anonymous caller|[^\s\"]+@\S+) does not have \S+ access", text)
        text = denied[0] if denied else text[:300]
        return f"{path}: {text}: the account needs {ROLES} on the bucket."
    return f"{path} cannot be reached ({text[:300]}); is there a network? An account: {log_in}."
