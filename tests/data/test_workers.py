"""workers.py: the same results as one process, and an end that is told."""

import os

import pytest

from transformer.data.workers import in_order
from transformer.files.reading import TransientError


def test_results_come_in_order_from_processes_without_jax(tmp_path):
    """Catches results in the order in which they are ready, and seconds of imports per worker."""
    os.mkfifo(pipe := str(tmp_path / "pipe"))
    last_first = [f"open({pipe!r}).read() or 0", "1", f"open({pipe!r}, 'w').close() or 2", "3"]
    assert list(in_order(eval, last_first, 2)) == [0, 1, 2, 3]
    found = in_order(eval, ["{'jax', 'flax'} & __import__('sys').modules.keys()"] * 2, 2)
    assert list(found) == [set(), set()]


def test_items_are_taken_as_they_are_needed():
    """Catches a corpus that is read into memory as fast as its disk gives it."""
    taken = []
    results = in_order(len, (taken.append(n) or [0] * n for n in range(50)), 2)
    assert next(results) == 0 and len(taken) < 8
    results.close()


@pytest.mark.parametrize(
    ("item", "error", "said"),
    [
        ("int('x')", ValueError, "invalid literal"),
        ("1 / 0", RuntimeError, "Traceback.*ZeroDivisionError"),
        ("(_ for _ in ()).throw(MemoryError('too large'))", MemoryError, "too large"),
        ("__import__('os')._exit(9)", TransientError, r"exit code 9.*prepare_workers\.$"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_told(item, error, said):
    """Catches a wait for ever for a worker that was killed, and a block that is skipped."""
    with pytest.raises(error, match=f"(?s){said}"):
        list(in_order(eval, ["1", item, "2"], 2))
