"""What a task's batches must offer to the training loop, which has them made ahead."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Batches(Protocol):
    """`batches[step]` is a batch: a NamedTuple of NumPy arrays [B, …].

    For training there is one for every step from 0 on; it depends on the seed and the step alone.

    Rows of zeros must count for nothing: they are added until the devices share a batch evenly.
    Batches that also have `part(step, start, stop)`, the same batch whose rows before `start` and
    from `stop` on may be empty, are asked for the rows of a host alone.
    """

    @property
    def rows_per_batch(self) -> int:
        """B."""
        ...

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches that hold every example once."""
        ...

    def __getitem__(self, step: int) -> Any: ...


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
