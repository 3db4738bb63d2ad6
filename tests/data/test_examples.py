"""The examples in the docstrings of `transformer.data`."""

import doctest

import pytest

from transformer.data import bucketing, corpora, held_out, languages, pair_blocks, splits


@pytest.mark.parametrize("module", [bucketing, corpora, held_out, languages, pair_blocks, splits])
def test_examples_are_true(module):
    """Catches an example that is no longer what the function returns."""
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
