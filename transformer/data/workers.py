"""Applies a function to items on all cores, in worker processes that know nothing but the function.

A worker is `python -m transformer.data.workers`. It imports what the function needs, and neither
JAX nor the program that started it, which therefore may be any script or notebook. Items and
results go through its standard input and output; it ends when its input does, so none outlives a
program that was killed.
"""

import os
import pickle
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from transformer.files.reading import TransientError, reason_of
from transformer.parallel.stopping import ignore_signals

Item = TypeVar("Item")
Result = TypeVar("Result")
ROOT = Path(__file__).parents[2]  # of the package, for the workers' search path
EXPECTED = ValueError, OSError, MemoryError  # of files, texts and machines: users are told


class LostWorkerError(TransientError):
    """A worker process could not be started, or ended before its work was done."""


def num_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], num_workers: int
) -> Iterator[Result]:
    """Yields function(item) of each item, in order.

    A single item is left to this process, as starting others takes longer than it, and so is
    everything if num_workers is 1. Only about one item more than there are workers is held at a
    time. function, items and results have to be picklable. Raises what the function raises.
    """
    items = iter(items)
    first = list(islice(items, 2))
    items = chain(first, items)
    if num_workers == 1 or len(first) < 2:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    processes: list[subprocess.Popen[bytes]] = []
    threads = ThreadPoolExecutor(num_workers)  # each of which talks with a process
    try:
        for _ in range(num_workers):
            processes.append(_start(function))
        idle = list(processes)
        for item in items:
            pending.append(threads.submit(_ask, idle, item))
            if len(pending) > num_workers + 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for process in processes:
            process.kill()
        threads.shutdown(cancel_futures=True)
        for process in processes:
            process.communicate()


def _start(function: Callable[[Any], Any]) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    try:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "transformer.data.workers"],  # -P: none of a file here
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
    except OSError as error:  # no process or file more
        raise LostWorkerError(
            f"A worker process cannot be started ({reason_of(error)}): let fewer work, with "
            f"--config.data.prepare_workers."
        ) from None
    _send(worker, function)
    return worker


def _send(worker: subprocess.Popen[bytes], thing: Any) -> None:
    assert worker.stdin is not None
    pickle.dump(thing, worker.stdin)
    worker.stdin.flush()


def _ask(idle: list[subprocess.Popen[bytes]], item: Any) -> Any:
    """Returns the result of an idle worker for an item, or raises its error."""
    worker = idle.pop()  # there is one for each thread
    try:
        _send(worker, item)
        assert worker.stdout is not None
        result, error = pickle.load(worker.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        worker.kill()  # if it lives, it writes what is no answer
        raise LostWorkerError(
            f"A worker process ended before its work was done (exit code {worker.wait()}), perhaps "
            f"for want of memory: let fewer work, with --config.data.prepare_workers."
        ) from None
    finally:
        idle.append(worker)
    if error is not None:
        raise error
    return result


# ---- in a worker


def _serve() -> None:
    """Reads the function and then items from standard input; writes (result, error) for each."""
    ignore_signals()  # for the program that asks
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the results
    function = pickle.load(sys.stdin.buffer)
    while True:
        try:
            item = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_answer(function, item), results)
        results.flush()


def _answer(function: Callable[[Any], Any], item: Any) -> tuple[Any, Exception | None]:
    try:
        return function(item), None
    except EXPECTED as error:
        return None, error
    except Exception:
        return None, RuntimeError(traceback.format_exc())


if __name__ == "__main__":
    _serve()
