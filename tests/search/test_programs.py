"""The programs of a search: how caches grow, how batches are put together, where they compile."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.helpers.fake_model import make_limits
from tests.helpers.tiny_models import VOCAB_SIZE, random_params, tiny_model
from transformer.config import Config
from transformer.data.batch import Batch
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
    return model, params, method, begin_slots(model, method, params, inputs, lengths, limits, rngs)


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
    """Catches a cache that ends before the longest hypothesis, and one for two more places."""
    assert cache_lengths(longest) == lengths


def test_a_longer_cache_changes_nothing(started):
    """Catches keys that are moved, and new places that are seen before they are written."""
    model, params, method, slots = started
    advance = jax.jit(partial(advance_slots, model, method))
    fixed, state = (slots.limits, slots.encoded), slots.state
    few = np.array([0])
    state, place, _, short = advance(params, fixed, state, np.array([0]), 10, few)
    assert place.tolist() == [10]
    *_, expected = advance(params, fixed, state, place, 16, few)
    *_, done, found = advance(params, fixed, lengthen_cache(model, method, state), place, 16, few)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-5)
    np.testing.assert_array_equal(found.ids, expected.ids)
    assert done.shape == (ROWS,) and not np.array_equal(short.ids, found.ids)


def test_collect_takes_rows_from_both_and_marks_nobody(started):
    """Catches rows of the wrong batch, and a row without a sentence that is searched on."""
    *_, slots = started
    others = jax.tree.map(lambda leaf: leaf + 1, slots)
    places = np.array([2, ROWS + 1, 2 * ROWS])
    taken = gather_slots(slots, others, places)
    assert taken.limits.max_lengths.tolist() == [LONGEST, LONGEST + 1, 0]
    mask = np.asarray(slots.encoded[1]).sum((1, 2, 3))
    assert mask.tolist() == [16, 3, 9, 1]
    np.testing.assert_array_equal(taken.encoded[0][0]["key"][0], slots.encoded[0][0]["key"][2])
    np.testing.assert_array_equal(taken.encoded[0][0]["key"][1], others.encoded[0][0]["key"][1])


@pytest.mark.parametrize("platform", ["tpu", "cuda"])
def test_the_programs_lower_for_accelerators(platform, started):
    """Catches an operation that only the CPU has, which nobody here would see."""
    model, params, method, slots = started
    advance = jax.jit(partial(advance_slots, model, method))
    state = (slots.limits, slots.encoded), slots.state
    where = jnp.zeros(1, jnp.int32), jnp.int32(8), jnp.zeros(1, jnp.int32)
    traced = advance.trace(params, *state, *where)
    assert "while" in traced.lower(lowering_platforms=(platform,)).as_text()
