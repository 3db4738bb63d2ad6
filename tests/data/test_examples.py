"""The examples in the docstrings of `transformer.data` and `transformer.search`."""

import doctest

import pytest

from transformer.data.corpora import cleaning, corpora, languages
from transformer.data.files import text
from transformer.data.rows import bucketing, masked_batches
from transformer.search import options, programs

MODULES = bucketing, cleaning, corpora, languages, masked_batches, options, programs, text


@pytest.mark.parametrize("module", MODULES)
def test_examples_are_true(module):
    """Catches an example that is no longer what the function returns."""
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
