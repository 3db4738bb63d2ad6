"""The machines of a run: how they find each other, agree with each other and share work.

Every host runs the same program on its share of the devices; host 0 alone speaks and writes.
"""

import json
import os
import re
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

import transformer
from transformer.signals import Interruption, shared_stopping

WAIT_SECONDS = 300  # for the other hosts to start
SAY_EVERY = 30  # seconds, while waiting for other hosts
HEARTBEAT_SECONDS = 45  # without a sign of life from a host, after which it counts as lost
HEARTBEAT_VARIABLE = "TRANSFORMER_HEARTBEAT_SECONDS"  # of the environment, overrides the above


def connect(
    coordinator: str = "",
    num_processes: int = 0,
    process_id: int = -1,
    *,
    wait_seconds: float = WAIT_SECONDS,
    say: Callable[[str], None],
    on_timeout: Callable[[], None],
) -> bool:
    """Joins the other hosts of the run, if there are any; returns whether this is host 0.

    Without arguments the hosts of a TPU slice, of Slurm and of Open MPI find each other, and any
    other process is alone.

    Args:
      coordinator: "host:port" of process 0.
      num_processes: how many processes there are.
      process_id: which of them this is, from 0.
      wait_seconds: how long the others may take to start.
      say: is told every 30 s what is being waited for.
      on_timeout: called in another thread when they have not come by then. It should end the
        process: JAX itself aborts it 30 s later.

    Raises ValueError if only some of the first three are given or make no sense, or if the hosts
    are not found.
    """
    given = (bool(coordinator), num_processes > 0, process_id >= 0)
    if any(given) and not all(given):
        raise ValueError(
            "--coordinator, --num_processes and --process_id go together: HOST:PORT of process 0, "
            "how many processes there are, and which of them this is, from 0."
        )
    if coordinator and not re.fullmatch(r"\S+:[0-9]{1,5}", coordinator):
        raise ValueError(f"--coordinator must be HOST:PORT, as 10.0.0.2:1234, not {coordinator}.")
    if num_processes and process_id >= num_processes:
        raise ValueError(
            f"--process_id must be below --num_processes ({num_processes}), not {process_id}."
        )
    heartbeat = _heartbeat_seconds()
    who = f"{num_processes} hosts at {coordinator}" if coordinator else "the other hosts"
    # Otherwise a C++ thread of JAX handles SIGTERM, and our handler never runs.
    jax.config.update("jax_enable_preemption_service", False)
    with _time_limit(who, wait_seconds, say, on_timeout):
        try:
            jax.distributed.initialize(
                coordinator_address=coordinator if all(given) else None,
                num_processes=num_processes if all(given) else None,
                process_id=process_id if all(given) else None,
                initialization_timeout=int(wait_seconds + SAY_EVERY),
                heartbeat_timeout_seconds=heartbeat,
                shutdown_timeout_seconds=heartbeat,
            )
        except (ValueError, RuntimeError) as error:
            if all(given) or "coordinator_address" not in str(error):
                reason = str(error).splitlines()[0]
                raise ValueError(f"The hosts of this run cannot be found: {reason}") from error
    return jax.process_index() == 0


def check_same_program() -> None:
    """Raises ValueError on every host if their versions or their files of this package differ."""
    folder, checksum = Path(transformer.__file__).parent, 0
    for file in sorted(folder.rglob("*.py")):
        checksum = zlib.crc32(file.read_bytes(), checksum)
    mine = f"transformer {transformer.__version__} ({checksum:08x}) on jax {jax.__version__}"
    programs = [text.decode() for text in gather_from_hosts(mine.encode())]
    for number, theirs in enumerate(programs):
        if theirs != programs[0]:
            raise ValueError(
                f"The hosts run different programs: host 0 has {programs[0]}, host {number} "
                f"{theirs}; install the same version on all of them."
            )


def _heartbeat_seconds() -> int:
    text = os.environ.get(HEARTBEAT_VARIABLE, str(HEARTBEAT_SECONDS))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{HEARTBEAT_VARIABLE} must be a number of seconds, not {text!r}.")
    return int(text)


@contextmanager
def _time_limit(
    who: str, limit: float, say: Callable[[str], None], on_timeout: Callable[[], None]
) -> Iterator[None]:
    """Says every 30 s who is being waited for, and calls `on_timeout` after `limit` seconds.

    A thread does it, as JAX waits for hosts in C++ and aborts the process when it gives up.
    """
    arrived = threading.Event()

    def watch() -> None:
        start = time.monotonic()
        while not arrived.wait(min(SAY_EVERY, max(0, start + limit - time.monotonic()))):
            waited = time.monotonic() - start
            if waited >= limit:
                say(
                    f"error: not all of {who} came within {limit} s; start the same command on "
                    f"every host, and see that they reach each other."
                )
                return on_timeout()
            say(f"waiting for {who}: {waited:.0f} s; giving up after {limit} s")

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        arrived.set()


def check_same(what: str, make_data: Callable[[], bytes]) -> None:
    """Raises ValueError on every host if the bytes that `make_data` returns differ between hosts.

    what: names the data in the error, as in "The hosts differ in …".
    """
    if jax.process_count() == 1:
        return
    checksums = multihost_utils.process_allgather(np.uint32(zlib.crc32(make_data())))
    if len(set(np.ravel(checksums).tolist())) > 1:
        raise ValueError(
            f"The hosts differ in {what}: give all of them the same files and the same command."
        )


def split_over_hosts(work: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]) -> list[Any]:
    """Splits `items` over the hosts, applies `work` to each share and gathers the results in order.

    `work` must return a list with one JSON-serialisable entry per item. The entries returned are
    what JSON makes of them on any number of hosts: a tuple comes back as a list. Raises
    `Interruption` on every host if a signal cuts the share of one short, where that is allowed.
    """
    num_hosts, host = jax.process_count(), jax.process_index()
    share = _work_until_told(work, items[host::num_hosts])
    shares = [json.loads(share) for share in gather_from_hosts(json.dumps(share).encode())]
    if None in shares:
        raise Interruption
    results = [None] * len(items)
    for number, share in enumerate(shares):
        results[number::num_hosts] = share
    return results


def _work_until_told(
    work: Callable[[Sequence[Any]], list[Any]], items: Sequence[Any]
) -> list[Any] | None:
    """Returns work(items), or None if a signal cuts it short that all hosts may leave for."""
    stopping = shared_stopping()
    if not stopping:
        return work(items)
    try:
        with stopping.own_part():
            return work(items)
    except Interruption:
        return None


def leave_if_told() -> None:
    """Raises `Interruption` on every host if one has been sent a signal, where that is allowed."""
    if stopping := shared_stopping():
        told = multihost_utils.process_allgather(np.int32(bool(stopping.signal)))
        if np.any(told):
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
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def wait_until(is_true: Callable[[], bool], seconds: float = 60) -> bool:
    """Polls `is_true` for up to `seconds` and returns its last value.

    Shared file systems show new files late.
    """
    deadline = time.monotonic() + seconds
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.5)
    return is_true()
