"""The examples in the docstrings of `transformer.data`."""

import doctest

import pytest

from transformer.data.corpora import blocks as pair_blocks
from transformer.data.corpora import corpora, held_out, languages
from transformer.data.files import splits
from transformer.data.rows import bucketing, masked_batches


@pytest.mark.parametrize(
    "module", [bucketing, corpora, held_out, languages, masked_batches, pair_blocks, splits]
)
def test_examples_are_true(module):
    """Catches an example that is no longer what the function returns."""
    result = doctest.testmod(module)
    assert result.attempted and not result.failed
