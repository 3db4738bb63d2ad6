"""The machines of a run: how they find each other, agree with each other and share work.

Every host runs the same program on its share of the devices; host 0 alone speaks and writes.
"""

import json
import re
import time
import zlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from transformer.files.reading import reason_of
from transformer.parallel.stopping import Interruption, Stopping

WAIT_SECONDS = 300  # for the other hosts to start; the caller may give up then,
MARGIN = 30  # and JAX so much later
HEARTBEAT_SECONDS = 45  # without a sign of life from a host, after which it counts as lost

_stopping: Stopping | None = None  # that of the evaluation that all hosts are in
_is_waited_for = False  # whether the others would wait for this host if it left that evaluation


def connect(coordinator: str, num_processes: int, process_id: int) -> bool:
    """Joins the other hosts of the run, if there are any; returns whether this is host 0.

    Without a description, which is "", 0, -1, the hosts of a TPU slice, of Slurm and of Open MPI
    find each other, and any other process is alone. JAX aborts the process if the others do not
    come in time.

    coordinator: "host:port" of process 0. process_id: which this is, from 0. Raises ValueError for
    a description that is not whole or makes no sense, or if the hosts are not found.
    """
    is_given = bool(coordinator) or num_processes > 0 or process_id >= 0
    is_whole = re.fullmatch(r"\S+:[0-9]{1,5}", coordinator) and 0 <= process_id < num_processes
    if is_given and not is_whole:
        raise ValueError(
            "--coordinator, --num_processes and --process_id go together: HOST:PORT of process 0, "
            "as 10.0.0.2:1234, how many processes there are, and which of them this is, from 0."
        )
    # Otherwise a C++ thread of JAX handles SIGTERM, and our handler never runs.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator_address=coordinator or None,
            num_processes=num_processes or None,
            process_id=process_id if is_given else None,
            initialization_timeout=WAIT_SECONDS + MARGIN,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except (ValueError, RuntimeError) as error:
        if is_given or "coordinator_address" not in str(error):
            said = f"The hosts of this run cannot be found: {reason_of(error)}"
            raise ValueError(said) from error
    return jax.process_index() == 0


def check_same(what: str, make_data: Callable[[], bytes]) -> None:
    """Raises ValueError, "The hosts differ in …", on all of them if their data of `what` differ."""
    if jax.process_count() == 1:
        return  # without making the data
    checksums = multihost_utils.process_allgather(np.uint32(zlib.crc32(make_data())))
    if len({*checksums.tolist()}) > 1:
        raise ValueError(
            f"The hosts differ in {what}: give all of them the same files and the same command."
        )


def split_over_hosts(work: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Splits `items` over the hosts, applies `work` to each share and gathers the results in order.

    `work` returns a list with an entry per item, of which JSON is made on any number of hosts: a
    tuple comes back as a list. Raises `Interruption` on every host if one has left its share
    (`leave_if_told`).
    """
    global _is_waited_for
    num_hosts, host = jax.process_count(), jax.process_index()
    before, _is_waited_for = _is_waited_for, False
    try:
        share = work(items[host::num_hosts])
    except Interruption:
        share = None
    finally:
        _is_waited_for = before
    shares = [json.loads(share) for share in gather_from_hosts(json.dumps(share).encode())]
    if None in shares:
        raise Interruption
    results = [None] * len(items)
    for number, share in enumerate(shares):
        results[number::num_hosts] = share
    return results


@contextmanager
def interruptible(stopping: Stopping) -> Generator[None]:
    """Lets an evaluation, which all hosts are in, be left at its next batch after a signal.

    It then raises `Interruption` on every host; also at its beginning.
    """
    global _stopping, _is_waited_for
    _stopping, _is_waited_for = stopping, jax.process_count() > 1
    try:
        leave_together()
        yield
    finally:
        _stopping, _is_waited_for = None, False


def leave_if_told() -> None:
    """Raises `Interruption` after a signal to this host, if no other one would wait for it."""
    if _stopping and _stopping.signal and not _is_waited_for:
        raise Interruption(_stopping.signal)


def leave_together() -> None:
    """Raises `Interruption` on every host after a signal to one; all of them must call it."""
    if _stopping and np.any(multihost_utils.process_allgather(bool(_stopping.signal))):
        raise Interruption


def gather_from_hosts(data: bytes) -> list[bytes]:
    """Returns the bytes that each host calls it with, in the order of the hosts."""
    if jax.process_count() == 1:
        return [data]
    sizes = multihost_utils.process_allgather(np.int32(len(data)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    rows = multihost_utils.process_allgather(padded)
    return [bytes(row[:size]) for row, size in zip(rows, sizes, strict=True)]


def wait_for_all(what: str) -> None:
    """Waits until every host has called it with the same name."""
    multihost_utils.sync_global_devices(what)


def wait_until(is_true: Callable[[], bool], seconds: float = 60) -> bool:
    """Polls `is_true` and returns its last value; shared file systems show new files late."""
    deadline = time.monotonic() + seconds
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.5)
    return is_true()
