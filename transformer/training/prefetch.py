"""Makes the next batches and sends them to the devices while these work on the present one."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def prefetch(
    make_batch: Callable[[int], T], steps: Iterable[int], num_ahead: int = 2
) -> Generator[T, None, None]:
    """Yields make_batch(step) for each of `steps`, in order, from a thread `num_ahead` ahead.

    An exception of `make_batch` is raised where its batch would have been yielded.
    """
    pool = ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    pending: deque[Future[T]] = deque()
    try:
        for step in steps:
            pending.append(pool.submit(make_batch, step))
            if len(pending) > num_ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
