"""permutation.py: an order that can be asked for anywhere."""

import numpy as np
import pytest

from transformer.data.epoch_plan import permute


@pytest.mark.parametrize("size", [*range(1, 40), 97, 1000, 2**16, 2**16 + 1, 99_991])
def test_every_number_once(size):
    """Catches two indices with one place, for which a pair would be shown twice and another not."""
    order = permute(np.arange(size), size, (0, 1))
    assert np.array_equal(np.sort(order), np.arange(size))


def test_any_part_may_be_asked_for_alone():
    """Catches an order that depends on what else is computed with it."""
    size = 10_007
    whole = permute(np.arange(size), size, (3,))
    some = np.array([5, 10_006, 0, 777])
    assert np.array_equal(permute(some, size, (3,)), whole[some])
    assert permute(np.arange(0), size, (3,)).shape == (0,)


def test_numbers_beyond_32_bits():
    """Catches places that are cut to 32 bits."""
    size = 10**12
    places = permute(np.arange(1000), size, (0,))
    assert len(set(places.tolist())) == 1000 and places.min() >= 0 and places.max() < size
    assert places.mean() == pytest.approx(size / 2, rel=0.1)


def test_keys_give_orders_that_have_nothing_to_do_with_each_other():
    """Catches a weak shuffle: numbers that are neighbours before and after it, in every order."""
    size = 30
    orders = np.array([permute(np.arange(size), size, (0, epoch)) for epoch in range(3000)])
    counts = np.array([np.bincount(column, minlength=size) for column in orders.T])
    assert counts.min() > 50 and counts.max() < 160  # 100 expected, 10 the standard deviation
    steps = np.bincount((np.diff(orders) % size).ravel(), minlength=size)[1:]
    assert steps.min() > 2600 and steps.max() < 3400  # 3000 expected
