"""The scripts that the tests start share a cache of compiled programs, which goes at the end."""

import os
import shutil
import tempfile


def pytest_configure(config):
    """A home for caches that is not the user's."""
    config.cache_home = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()


def pytest_unconfigure(config):
    shutil.rmtree(config.cache_home, ignore_errors=True)
