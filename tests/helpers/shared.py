"""Folders that are made once per test session, whichever worker needs them first."""

import os
import shutil

from filelock import FileLock


def make_once(tmp_path_factory, name, make):
    """Returns a folder that `make(folder)` has filled; nobody may write into it afterwards."""
    root = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a folder of its own below it
        root = root.parent
    folder, done = root / name, root / f"{name}.done"
    with FileLock(root / f"{name}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder
