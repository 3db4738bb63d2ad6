"""Compiled programs of one start serve the next, and only from a folder that is this user's."""

import os
import pathlib
from unittest.mock import patch

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache as jax_cache

from tests.helpers.scripts import run_python
from transformer.parallel import devices

PROGRAM = """
import jax
from transformer.parallel import devices
devices.MIN_COMPILE_SECONDS = 0
devices.keep_compiled_programs()
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((8, 8)))
print(events.count("/jax/compilation_cache/cache_hits"), jax.config.jax_compilation_cache_dir)
"""


@pytest.fixture(autouse=True)
def no_cache(tmp_path, monkeypatch):
    """JAX without a cache, and a home of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    jax.config.update("jax_compilation_cache_dir", None)
    jax_cache.reset_cache()
    yield
    jax_cache.reset_cache()


NOT_KEPT = "compiled programs are not kept for the next start: "


def turn_on(named=None):
    """Turns the cache on, given the folder that JAX names; returns (its folder, what was said)."""
    said = []
    jax.config.update("jax_compilation_cache_dir", named)
    with patch.object(devices, "say", said.append):
        devices.keep_compiled_programs()
    return jax.config.jax_compilation_cache_dir, "".join(said)


@pytest.mark.long
def test_the_second_start_finds_what_the_first_compiled(tmp_path):
    """Catches a cache that is never written, never read, or open to others."""

    def start():
        environment = {"XDG_CACHE_HOME": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": ""}
        code, out, err = run_python(PROGRAM, env=environment)
        assert code == 0, err
        return out.decode().split()

    hits, folder = start()
    assert hits == "0" and folder.startswith(str(tmp_path))
    assert os.stat(folder).st_mode & 0o777 == 0o700
    hits, same_folder = start()
    assert int(hits) > 0 and same_folder == folder


def test_only_a_folder_of_ones_own_is_used(tmp_path, monkeypatch):
    """Catches programs that another user laid under the name of our folder, or that is named, a
    default that overrides JAX's own settings, and a start that fails for want of a cache."""
    folder, said = turn_on()
    assert folder.startswith(str(tmp_path)) and said == ""
    chosen = str(tmp_path / "mine")
    assert turn_on(chosen) == (chosen, "")
    with monkeypatch.context() as context:
        context.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)
        for named in (None, folder):
            assert turn_on(named) == (None, f"{NOT_KEPT}{folder} belongs to another user")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/file/home")
    (tmp_path / "file").touch()
    folder, said = turn_on()
    assert folder is None and said.startswith(NOT_KEPT)
    jax.config.update("jax_enable_compilation_cache", False)
    assert turn_on() == (None, "")


def test_the_folder_is_bounded_and_cleared_of_what_stops_its_bounds():
    """Catches a folder that grows without end: JAX removes the programs that were not used for
    longest, but not if one that was killed has left a program without a time of last use."""
    folder = pathlib.Path(turn_on()[0])
    (folder / "killed-cache").write_bytes(b"x")
    (folder / "kept-cache").write_bytes(b"x")
    (folder / "kept-atime").touch()
    autotuned = folder / "xla_gpu_per_fusion_autotune_cache_dir"  # as XLA writes it on a GPU
    autotuned.mkdir()
    turn_on()
    assert {*folder.iterdir()} == {folder / "kept-cache", folder / "kept-atime", autotuned}
    assert jax.config.jax_compilation_cache_max_size == devices.MAX_BYTES
