"""What one host can tell of several; runs of two hosts are in end_to_end."""

import signal

import pytest

from transformer.parallel import hosts
from transformer.parallel.stopping import Interruption, Stopping


def test_results_are_what_json_makes_of_them_on_one_host_too():
    """Catches results that are tuples on one host and lists on several, or fail only there."""
    results = hosts.split_over_hosts(lambda items: [(2 * x, None) for x in items], [1, 2, 3])
    assert results == [[2, None], [4, None], [6, None]]
    with pytest.raises(TypeError, match="not JSON serializable"):
        hosts.split_over_hosts(lambda items: [b"" for _ in items], [1])


def test_work_is_left_at_its_next_batch_after_a_signal():
    """Catches an evaluation of hours that a signal does not end, and one that no signal came to."""
    stopping, begun = Stopping(0), []

    def work(items):
        for item in items:
            hosts.leave_if_told()
            begun.append(item)
            stopping.signal = signal.SIGTERM
        return items

    hosts.split_over_hosts(work, [0])  # not where a result is wanted whatever comes
    stopping.signal = None
    with pytest.raises(Interruption), hosts.interruptible(stopping):
        hosts.split_over_hosts(work, [1, 2])
    with pytest.raises(Interruption), hosts.interruptible(stopping):
        pytest.fail("the block has begun")
    hosts.leave_together()
    assert begun == [0, 1]


def test_a_description_of_the_hosts_that_cannot_be_is_refused():
    """Catches a forgotten flag with which each host trains alone, an IndexError of JAX, and a
    process that waits for one that cannot be."""
    wrong_places = ("host", 2, 0), ("host:port", 2, 0)
    for flags in (*wrong_places, ("localhost:1", 2, -1), ("host:1", 2, 2), ("", 0, 1)):
        with pytest.raises(ValueError, match="go together: HOST:PORT of process 0"):
            hosts.connect(*flags)
