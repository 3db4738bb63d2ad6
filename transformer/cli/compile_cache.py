"""Keeps compiled programs for the next start: JAX's persistent cache in a folder of the user's own.

The programs in it are run unchecked, so it must be a folder that nobody else can write.
"""

import hashlib
import os
import pathlib
import platform
import stat
from collections.abc import Callable

import jax

from transformer.storage import is_remote

MIN_COMPILE_SECONDS = 0.05  # programs that compile faster are not kept
MAX_BYTES = 2**29  # thousands of programs; JAX reads the date of each when it adds one


def turn_on(say: Callable[[str], None]) -> None:
    """Turns the cache on, unless JAX_COMPILATION_CACHE_DIR or jax.config names another folder.

    The folder is in XDG_CACHE_HOME (~/.cache). If it cannot be made, or if others may write to it
    or to the one that is named, `say` is told so and nothing is kept.
    JAX_ENABLE_COMPILATION_CACHE=false turns it off.
    """
    # pyrefly: ignore[missing-attribute]: jax makes these attributes when it is imported
    named, is_on = jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache
    if not is_on or (named and is_remote(named)):
        return
    try:
        if named:
            _make_private(pathlib.Path(named))
            return
        folder = _private_folder()
        _remove_undated(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        say(f"compiled programs are not kept for the next start: {error}")
        jax.config.update("jax_compilation_cache_dir", None)
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)


def _private_folder() -> pathlib.Path:
    """Returns the folder, made if need be; OSError if others may write to it."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(home) / "transformer-jax" / _machine()
    for path in (folder.parent, folder):
        _make_private(path)
    return folder


def _make_private(folder: pathlib.Path) -> None:
    """Makes a folder if need be; raises OSError if others may write to it or put another there."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(f"others may write to {folder}; chmod 700 it, or delete it")
    for path in (folder.absolute(), *folder.absolute().parents):
        if path.is_symlink() and path.lstat().st_uid not in (0, os.getuid()):
            raise OSError(f"{path} is a link of another user")
    for path in folder.resolve().parents:
        if path.stat().st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH:
            raise OSError(f"others may replace what is in {path}; chmod o-w it")


def _remove_undated(folder: pathlib.Path) -> None:
    """Removes programs without a time of last use, with which JAX could write no others.

    A process that was killed between the two files leaves one.
    """
    for program in folder.glob("*-cache"):
        if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
            program.unlink(missing_ok=True)


def _machine() -> str:
    """Names the processor and JAX: a home that machines share must not mix their programs up."""
    cpu = pathlib.Path("/proc/cpuinfo")
    lines = cpu.read_text(errors="replace").split("\n") if cpu.is_file() else []
    kinds = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    kinds += [platform.machine(), platform.processor()]
    return f"jax-{jax.__version__}-{hashlib.sha256(repr(kinds).encode()).hexdigest()[:12]}"
