"""What every test process shares: the CPU, four fake devices, and a cache of compiled programs.

Set before jax is imported. The cache stays in .pytest_cache from one run to the next: most of what
a test of a model costs is compiling it.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.helpers.xla_flags import CHEAP, xla_flags

NUM_DEVICES = 4
CACHE = Path(__file__).parents[1] / ".pytest_cache" / "xla"

os.environ["JAX_PLATFORMS"] = CHEAP["JAX_PLATFORMS"]
for name, value in CHEAP.items():
    os.environ.setdefault(name, value)
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
os.environ["XLA_FLAGS"] = xla_flags(NUM_DEVICES)


def pytest_configure(config):
    """Gives the scripts that tests start a cache folder that is not the user's."""
    config.cache_home = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()


def pytest_unconfigure(config):
    """Removes it."""
    shutil.rmtree(config.cache_home, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Lets the tests that run commands as a user does go first.

    With several workers, the longest files then do not begin last.
    """
    items.sort(key=lambda item: "end_to_end" not in item.path.parts)


@pytest.fixture(autouse=True)
def own_state():
    """A test leaves the process as it found it."""
    from tests.helpers.process_state import kept_state  # now, as it imports what reads the above

    yield from kept_state()


@pytest.fixture
def compiles_as_usual():
    """XLA optimizes in this test, which reads what the compiler made."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
