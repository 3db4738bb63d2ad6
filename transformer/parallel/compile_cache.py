"""Keeps compiled programs for the next start: JAX's persistent cache in a folder of the user's own.

The programs in it are run unchecked, so it must be this user's.
"""

import os
import pathlib
import platform
from collections.abc import Callable

import jax

from transformer.files.storage import is_remote

MIN_COMPILE_SECONDS = 0.05  # programs that compile faster are not kept
MAX_BYTES = 2**29  # thousands of programs; JAX reads the date of each when it adds one


def turn_on(say: Callable[[str], None]) -> None:
    """Turns the cache on, unless JAX_COMPILATION_CACHE_DIR or jax.config names another folder.

    The folder is in XDG_CACHE_HOME (~/.cache). If it cannot be made, or it or the one that is named
    belongs to another user, `say` is told so and nothing is kept.
    JAX_ENABLE_COMPILATION_CACHE=false turns it off.
    """
    # pyrefly: ignore[missing-attribute]: jax makes these attributes when it is imported
    named, is_on = jax.config.jax_compilation_cache_dir, jax.config.jax_enable_compilation_cache
    if not is_on or (named and is_remote(named)):
        return
    try:
        if named:
            folder = pathlib.Path(named)
        else:  # for this machine: those that share a home may have other processors
            home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
            folder = home / "transformer-jax" / f"jax-{jax.__version__}-{platform.node()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise OSError(f"{folder} belongs to another user")
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
        say(f"compiled programs are not kept for the next start: {error}")
        jax.config.update("jax_compilation_cache_dir", None)
        return
    if named:
        return
    # A process that is killed leaves a program without a time of last use; JAX then keeps no more.
    for program in folder.glob("*-cache"):
        if not program.with_name(program.name.removesuffix("-cache") + "-atime").exists():
            program.unlink(missing_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_compilation_cache_max_size", MAX_BYTES)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", MIN_COMPILE_SECONDS)
