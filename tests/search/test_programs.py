"""The functions of a search that are compiled: how caches grow and how batches are put together."""

import doctest
from functools import partial

import jax
import numpy as np
import pytest

from tests.helpers.fake_model import make_limits
from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_model
from transformer.config import Config
from transformer.data.batch import Batch
from transformer.search import programs
from transformer.search.options import SearchOptions
from transformer.search.programs import (
    advance_slots,
    begin_slots,
    cache_lengths,
    gather_slots,
    lengthen_cache,
)

ROWS, SOURCE_LENGTH, LONGEST = 4, 16, 66


@pytest.fixture(scope="module")
def started():
    """A model, its parameters, and a batch before the first step of a beam search."""
    model = tiny_model(num_layers=1)
    params = random_params(model.init, Batch.zeros(1, 1), deterministic=True)
    method = SearchOptions.from_config(Config().decoding, beam_size=3).method()
    rng = np.random.default_rng(0)
    inputs = rng.integers(4, VOCAB_SIZE, (ROWS, SOURCE_LENGTH))
    lengths = np.array([16, 3, 9, 1])
    limits, rngs = make_limits([LONGEST] * ROWS), np.zeros((ROWS, 2), np.uint32)
    begin = jax.jit(partial(begin_slots, model, method))
    return model, params, method, begin(params, inputs, lengths, limits, rngs)


@pytest.mark.parametrize(
    "longest, lengths",
    [
        (10, [10]),
        (16, [16]),
        (20, [20]),
        (21, [16, 21]),
        (66, [16, 32, 66]),
        (82, [16, 32, 64, 82]),
    ],
)
def test_caches_double_and_end_at_the_longest(longest, lengths):
    """Catches a cache that ends before the longest hypothesis, and one for two more positions."""
    assert cache_lengths(longest) == lengths


def test_a_longer_cache_changes_nothing(started):
    """Catches keys that are moved, and new positions that are seen before they are written."""
    model, params, method, slots = started
    advance = jax.jit(partial(advance_slots, model, method))
    fixed, state, max_unfinished = slots[:2], slots.state, np.array([0])
    first = advance(params, fixed, state, np.array([0]), 10, max_unfinished)
    assert first.position.tolist() == [10]
    expected = advance(params, fixed, first.state, first.position, 16, max_unfinished)
    longer = jax.jit(partial(lengthen_cache, model, method))(first.state)
    found = advance(params, fixed, longer, first.position, 16, max_unfinished)
    np.testing.assert_allclose(found.results.scores, expected.results.scores, rtol=1e-5)
    np.testing.assert_array_equal(found.results.ids, expected.results.ids)
    assert found.is_finished.shape == (ROWS,)
    assert not np.array_equal(first.results.ids, found.results.ids)


def test_gather_takes_rows_from_both_and_empties_the_others(started):
    """Catches rows of the wrong batch, and a row without a sentence that is searched on."""
    *_, slots = started
    slots = jax.device_get(slots)
    others = jax.tree.map(lambda leaf: leaf + 1, slots)
    rows = np.array([2, ROWS + 1, 2 * ROWS])
    taken = jax.jit(gather_slots)(slots, others, rows)
    assert taken.limits.max_lengths.tolist() == [LONGEST, LONGEST + 1, 0]
    mask = slots.encoded[1].sum((1, 2, 3))
    assert mask.tolist() == [16, 3, 9, 1]
    np.testing.assert_array_equal(taken.encoded[0][0].key[0], slots.encoded[0][0].key[2])
    np.testing.assert_array_equal(taken.encoded[0][0].key[1], others.encoded[0][0].key[1])


def test_examples_are_true():
    """Catches an example in a docstring that is no longer what the function returns."""
    result = doctest.testmod(programs)
    assert result.attempted and not result.failed
