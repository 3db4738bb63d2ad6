"""A contestant of the benchmarks that does nothing, or what goes wrong."""

import threading

CALLS_BEFORE_IT_FAILS = 100


def make_step(workload, kind):
    """Returns a step: "quick"; "slow", which never ends; "failing" after some calls."""
    if kind == "missing":
        raise ImportError("No module named 'nothing'")
    calls = 0

    def step():
        nonlocal calls
        calls += 1
        if kind == "slow":
            threading.Event().wait()
        if kind == "failing" and calls > CALLS_BEFORE_IT_FAILS:
            raise MemoryError("out of memory\nOf 80 GB 79 were taken.")
        return 1.0

    return step
