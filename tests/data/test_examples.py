"""The examples in the docstrings of `transformer.data`."""

import doctest

import pytest

from transformer.data import bucketing, languages, parallel_text, splits


@pytest.mark.parametrize("module", [bucketing, languages, parallel_text, splits])
def test_examples_are_true(module):
    """Catches an example that is no longer what the function returns."""
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
