"""The folder of prepared corpora, which runs share."""

import atexit
import os
import pathlib
import shutil
import tempfile

from etils import epath

from transformer import storage
from transformer.config import DataConfig
from transformer.console import say
from transformer.folders import is_of_stranger

NAME = "prepared_corpora"


def cache_folder(data: DataConfig, workdir: storage.PathLike) -> epath.Path:
    """Returns the folder of prepared corpora, which may have to be made (`make_private`).

    It is `data.cache`, by default `prepared_corpora` beside the work directory. Where nothing can
    be written there, it is a temporary one, and that is said. Raises ValueError if `data.cache`
    cannot be written.
    """
    if data.cache:
        folder = storage.absolute(storage.locate(data.cache))
    else:
        folder = storage.absolute(workdir).parent / NAME
    if storage.is_remote(folder):
        return folder
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if existing.is_dir() and os.access(existing, os.W_OK) and not is_of_stranger(existing):
        return folder
    if data.cache:
        raise ValueError(
            f"Nothing can be written to {existing}, where data.cache={data.cache} would be, or "
            f"another user put it there: name another folder."
        )
    say(
        f"nothing can be written to {existing}, or another user put it there, so that the next "
        f"start prepares the corpus again; name a folder for it with --config.data.cache"
    )
    return epath.Path(temporary_folder())


def temporary_folder() -> pathlib.Path:
    """Makes a local folder for a corpus, which is removed at the end of the process."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="transformer-corpus-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def make_private(cache: epath.Path, *names: str) -> None:
    """Makes the folder of prepared corpora and the folders cache/NAME/NAME… in it.

    Only the owner may read them. An object store has no folders. Raises OSError.
    """
    if storage.is_remote(cache):
        return
    cache.parent.mkdir(parents=True, exist_ok=True)
    for folder in (cache, *(cache.joinpath(*names[: n + 1]) for n in range(len(names)))):
        folder.mkdir(mode=0o700, exist_ok=True)


def say_if_changed(folder: epath.Path) -> None:
    """Says so if the same corpora were prepared here before their text changed.

    folder: what is about to be made; its name is of `key.entry_name`.
    """
    same_but_text = folder.name.rpartition("-")[0] + "-"
    names = {other.name for other in folder.parent.iterdir()} if folder.parent.exists() else set()
    if any(name.startswith(same_but_text) for name in names - {folder.name}):
        say(
            f"the text has changed since it was prepared in {folder.parent}, or another corpus has "
            f"its name: it is prepared anew"
        )
