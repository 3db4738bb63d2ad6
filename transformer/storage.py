"""Where a run lies: a folder, or an object store (gs://), which has neither appending nor locks.

A path is an `etils.epath.Path`, as Orbax uses too; gcsfs (the extra `gcs`) is behind gs://.
"""

import fcntl
import functools
import os
import pathlib
import queue
import re
import socket
import threading
from contextlib import contextmanager, suppress

from etils import epath

LONGEST_WAIT = 8  # seconds for the object store's first answer
# Orbax asks for the bucket itself, which the first role alone does not allow.
ROLES = "roles/storage.objectAdmin and roles/storage.legacyBucketReader"

for name, value in {
    "EPATH_USE_TF": "false",  # TensorFlow, where installed, would be imported and may lack gs://
    "GCE_METADATA_DETECT_RETRIES": "2",  # a virtual machine's account is looked for 3 s each time
    "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",  # gRPC, which not every network lets through
}.items():
    os.environ.setdefault(name, value)


def locate(name):
    """The path that a user calls `name`; ValueError in one sentence if it is out of reach."""
    scheme, separator, _ = os.fspath(name).partition("://")
    if not separator:
        return epath.Path(name).expanduser()
    path = epath.Path(name) if scheme == "gs" else None
    if path is None or len(path.parts) < 4:
        raise ValueError(f"{name} must be a local path or gs://BUCKET/NAME.")
    _check_readable(path)
    return path


def is_object(path):
    """Whether a path is in an object store."""
    return str(path).startswith("gs://")


def absolute(path):
    """The path from the root on, as Orbax needs it."""
    return epath.Path(path) if is_object(path) else epath.Path(pathlib.Path(path).absolute())


def check_writable(path):
    """ValueError in one sentence if nothing can be written or deleted below gs://…"""

    def write(bucket, prefix):
        blob = bucket.blob(f"{prefix}write_check")
        blob.upload_from_string(b"")
        blob.delete()

    _ask(path, write)


def write_atomically(path, content):
    """A reader, or a crash, sees the old file or the new one and nothing between; str or bytes."""
    content = content.encode() if isinstance(content, str) else content
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path):
    """A file to write bytes to, which takes the place of `path` at the end, or not at all."""
    path = epath.Path(path)
    if is_object(path):
        yield from _replacing_object(path)
        return
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name without content
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _replacing_object(path):
    """An object appears when it is closed, and so it must not be if something went wrong."""
    file = path.open("wb")
    try:
        yield file
    except BaseException:
        file.discard()
        file.closed = True  # else its end would be the upload's
        raise
    file.close()


def take_lock(path, flag):
    """The open file at `path`, locked until it is closed or this process ends.

    ValueError if another process has it, with the owner and the flag that names another place.
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


class GrowingObject:
    """A file that grows where nothing can be appended to: kept in memory and written anew."""

    def __init__(self, path):
        self._path = epath.Path(path)
        self._content = self._path.read_bytes() if self._path.is_file() else b""

    def write(self, data):
        """Takes bytes, to be written at the next `flush`."""
        self._content += data

    def flush(self):
        """Writes all of it; more than once a second Cloud Storage makes the caller wait."""
        self._path.write_bytes(self._content)

    close = flush


# ---- the first question to an object store, with an answer that a user can act on


@functools.cache
def _check_readable(path):
    def read(bucket, prefix):
        list(bucket.list_blobs(prefix=prefix, max_results=1))

    _ask(path, read)
    import fsspec

    # gcsfs would not see what tensorstore writes, were it to remember what it has listed.
    fsspec.config.conf.setdefault("gcs", {})["use_listings_cache"] = False


def _ask(path, question):
    """Puts `question(bucket, prefix)`; ValueError in one sentence if it fails or takes too long."""
    try:
        import gcsfs  # noqa: F401
        from google.cloud import storage
    except ImportError:
        raise ValueError(f"{path} needs the package gcsfs: pip install -e '.[gcs]'") from None
    answers = queue.SimpleQueue()

    def ask():
        try:
            # As Orbax asks, which needs the bucket to know of what kind it is.
            question(storage.Client().get_bucket(path.parts[2]), "/".join(path.parts[3:]) + "/")
            answers.put(None)
        except Exception as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()  # no timeout of theirs bounds everything
    try:
        error = answers.get(timeout=LONGEST_WAIT)
    except queue.Empty:
        error = TimeoutError(f"no answer within {LONGEST_WAIT} s")
    if error:
        raise ValueError(_explain(path, error)) from None


def _explain(path, error):
    from google.api_core.exceptions import Forbidden, NotFound, Unauthorized
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
