"""Compiled programs of one start serve the next, and only from a folder that is the user's own."""

import os

import pytest

from tests.helpers.scripts import run_python

PROGRAM = """
import jax, sys
from transformer.cli import compile_cache
compile_cache.ENTRY_SECONDS = 0
compile_cache.use(lambda text: print(text, file=sys.stderr))
events = []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
jax.jit(lambda x: (x @ x).sum())(jax.numpy.ones((8, 8)))
print(events.count("/jax/compilation_cache/cache_hits"), jax.config.jax_compilation_cache_dir)
"""


def start(cache_home, **environment):
    """(programs found compiled, folder of the cache, what was said) of a fresh process."""
    code, out, err = run_python(PROGRAM, env={"XDG_CACHE_HOME": str(cache_home), **environment})
    assert code == 0, err
    hits, folder = out.decode().split()
    return int(hits), folder, err


def test_the_second_start_finds_what_the_first_compiled(tmp_path):
    """Catches a cache that is never written, never read, or open to others."""
    first, folder, _ = start(tmp_path)
    assert first == 0 and folder.startswith(str(tmp_path))
    assert os.stat(folder).st_mode & 0o777 == 0o700
    again, same_folder, _ = start(tmp_path)
    assert again > 0 and same_folder == folder


@pytest.mark.parametrize("level", ["", "transformer-jax"])
def test_a_folder_that_others_may_write_is_not_used(tmp_path, level):
    """Catches programs run from where anybody could have put them."""
    _, folder, _ = start(tmp_path)
    shared = tmp_path / level if level else folder
    os.chmod(shared, 0o777)
    _, folder, said = start(tmp_path)
    assert folder == "None" and "others may write to" in said


def test_the_users_own_choice_stands(tmp_path):
    """Catches a default that overrides JAX's own settings."""
    chosen = str(tmp_path / "mine")
    assert start(tmp_path, JAX_COMPILATION_CACHE_DIR=chosen)[1] == chosen
    assert start(tmp_path, JAX_ENABLE_COMPILATION_CACHE="false")[1] == "None"
    assert start(tmp_path / "file" / "x")[1] != "None"
    (tmp_path / "no").write_text("")
    _, folder, said = start(tmp_path / "no")
    assert folder == "None" and "not kept" in said


def test_the_oldest_programs_make_room(tmp_path, monkeypatch):
    """Catches a folder that grows without end, and the newest thrown away."""
    from transformer.cli import compile_cache

    monkeypatch.setattr(compile_cache, "MOST_BYTES", 25)
    for age, name in enumerate("abcd"):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    compile_cache._forget_oldest(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
