"""Fixtures for tests whose time is spent compiling and not in what they compile."""

import jax
import pytest

OPTION = "jax_disable_most_optimizations"


@pytest.fixture(scope="module")
def compiles_fast():
    """XLA leaves out most optimizations, which takes about two thirds of the time."""
    jax.config.update(OPTION, True)
    yield
    jax.config.update(OPTION, False)


@pytest.fixture
def compiles_as_usual():
    """XLA optimizes in this test, where others of the file are `compiles_fast`."""
    before = jax.config.read(OPTION)
    jax.config.update(OPTION, False)
    yield
    jax.config.update(OPTION, before)
