"""Compiled programs, kept for the next start: JAX's persistent cache in a folder of the user's own.

What lies there is run as it is, so it must be a folder that nobody else can write.
"""

import hashlib
import os
import pathlib
import platform
import stat

import jax

ENTRY_SECONDS = 0.05  # programs that compile faster are not kept
MOST_BYTES = 2**31  # thousands of programs; the oldest make room


def use(say):
    """Turns it on, unless JAX_COMPILATION_CACHE_DIR or jax.config names another folder.

    The folder is in XDG_CACHE_HOME (~/.cache); if it cannot be made, or others may write to it,
    `say` tells so and nothing is kept. JAX_ENABLE_COMPILATION_CACHE=false turns it off.
    """
    if jax.config.jax_compilation_cache_dir or not jax.config.jax_enable_compilation_cache:
        return
    try:
        folder = _private_folder()
        _forget_oldest(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        say(f"compiled programs are not kept for the next start: {error}")
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", ENTRY_SECONDS)


def _private_folder():
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(home) / "transformer-jax" / _machine()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (folder, folder.parent):
        status = path.stat()
        if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(f"others may write to {path}")
    return folder


def _forget_oldest(folder):
    entries = sorted(
        ((path.stat(), path) for path in folder.iterdir()), key=lambda e: e[0].st_mtime
    )
    excess = sum(status.st_size for status, _ in entries) - MOST_BYTES
    for status, path in entries:
        if excess <= 0:
            break
        path.unlink(missing_ok=True)
        excess -= status.st_size


def _machine():
    """Names the processor and JAX: a home that machines share must not mix their programs up."""
    cpu = pathlib.Path("/proc/cpuinfo")
    lines = cpu.read_text(errors="replace").split("\n") if cpu.is_file() else []
    kinds = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    kinds += [platform.machine(), platform.processor()]
    return f"jax-{jax.__version__}-{hashlib.sha256(repr(kinds).encode()).hexdigest()[:12]}"
