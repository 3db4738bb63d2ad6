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
Worker = subprocess.Popen[bytes]
ROOT = Path(__file__).parents[2]  # of the package, for the workers' search path
ADVICE = ": let fewer work, with --config.data.prepare_workers."
EXPECTED = ValueError, OSError, MemoryError  # of files, texts and machines: users are told


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
    pending = deque[Future[Result]]()
    workers = list[Worker]()
    threads = ThreadPoolExecutor(num_workers)  # each of which talks with a worker
    try:
        for _ in range(num_workers):
            workers.append(_start(function))
        idle = list(workers)
        for item in items:
            pending.append(threads.submit(_ask, idle, item))
            if len(pending) > num_workers + 1:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for worker in workers:
            worker.kill()
        threads.shutdown(cancel_futures=True)
        for worker in workers:
            worker.communicate()


def _start(function: Callable[[Any], Any]) -> Worker:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    try:
        worker = subprocess.Popen(
            [sys.executable, "-P", "-m", "transformer.data.workers"],  # -P: none of a file here
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
    except OSError as error:  # no process or file more
        raise TransientError(
            f"A worker process cannot start ({reason_of(error)}){ADVICE}"
        ) from None
    _send(worker.stdin, function)
    return worker


def _send(stream: Any, thing: Any) -> None:
    pickle.dump(thing, stream)
    stream.flush()


def _ask(idle: list[Worker], item: Any) -> Any:
    """Returns the result of an idle worker for an item, or raises its error."""
    worker: Any = idle.pop()  # there is one for each thread
    try:
        _send(worker.stdin, item)
        result, error = pickle.load(worker.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        worker.kill()  # if it lives, it writes what is no answer
        raise TransientError(
            f"A worker process ended before its work was done (exit code {worker.wait()}), perhaps "
            f"for want of memory{ADVICE}"
        ) from None
    finally:
        idle.append(worker)
    if error is not None:
        raise error
    return result


def _serve() -> None:
    """In a worker: reads the function and items from standard input; writes (result, error)."""
    ignore_signals()  # for the program that asks
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the results
    function = pickle.load(sys.stdin.buffer)
    while True:
        try:
            item = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = function(item), None
        except EXPECTED as error:
            answer = None, error
        except Exception:
            answer = None, RuntimeError(traceback.format_exc())
        _send(results, answer)


if __name__ == "__main__":
    _serve()
