"""Fixtures of the tests of parallel."""

from tests.helpers.fast_compiles import compiles_as_usual, compiles_fast

__all__ = ["compiles_as_usual", "compiles_fast"]
