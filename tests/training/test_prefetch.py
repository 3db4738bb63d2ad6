"""Batches made ahead by a thread: in order, not too far ahead, errors where they belong."""

import threading

import pytest

from tests.helpers.scripts import HANGS
from transformer.training.steps import prefetch


def test_order_is_kept_and_work_is_done_ahead_by_another_thread():
    """Catches a loop that makes each batch only when the device has come to ask for it."""
    made, threads, three_made = [], set(), threading.Event()

    def make(step):
        made.append(step)
        threads.add(threading.get_ident())
        if len(made) == 3:  # the first, and two ahead
            three_made.set()
        return step * 10

    results = prefetch(make, range(5, 12), num_ahead=2)
    assert next(results) == 50
    assert three_made.wait(HANGS)
    assert list(results) == [60, 70, 80, 90, 100, 110]
    assert made == list(range(5, 12))
    assert threading.get_ident() not in threads
    assert list(prefetch(str, range(1), num_ahead=4)) == ["0"]  # fewer than are made ahead
    assert list(prefetch(str, range(0))) == []


def test_no_more_is_made_than_was_asked_for():
    """Catches a thread that fills the memory with an epoch."""
    made = []
    results = prefetch(made.append, range(100), num_ahead=2)
    for _ in range(3):
        next(results)
    results.close()
    assert len(made) <= 5


def test_error_comes_where_its_batch_would_have_come():
    """Catches a thread that dies in silence and leaves the loop waiting for ever."""

    def make(step):
        if step == 2:
            raise ValueError("step 2")
        return step

    results = prefetch(make, range(5))
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="step 2"):
        next(results)
