"""The next batches are made and sent to the devices while these work on the present one."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor


def prefetch(make, steps, ahead=2):
    """make(step) for each of `steps`, in order, made by a thread up to `ahead` before it is asked.

    What `make` raises is raised where its batch would have come.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    pending = deque()
    try:
        for step in steps:
            pending.append(pool.submit(make, step))
            if len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
