"""The machines of a run: their accelerators, how they find each other, agree, and share work.

Every host runs the same program on its share of the devices; host 0 alone speaks and writes.
"""

import json
import os
import sys
import threading
import time
import zlib
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils

WAIT_SECONDS = 300  # for the other hosts to start
SAY_EVERY = 30
LOST_AFTER_SECONDS = 60  # without a sign of life a host counts as lost


def connect(coordinator="", num_processes=0, process_id=-1, *, wait_seconds=WAIT_SECONDS, say):
    """Joins the other hosts of the run, if there are any; returns whether this is host 0.

    Without arguments the hosts of a TPU slice, of Slurm and of Open MPI find each other, and any
    other process is alone. With them: the "host:port" of process 0, how many processes there are,
    and which of them this is. Every 30 s `say` tells what is being waited for; if the others have
    not come after `wait_seconds`, the process ends with exit code 75.
    """
    given = (bool(coordinator), num_processes > 0, process_id >= 0)
    if any(given) and not all(given):
        raise ValueError(
            "--coordinator, --num_processes and --process_id go together: HOST:PORT of process 0, "
            "how many processes there are, and which of them this is, from 0."
        )
    chosen = dict(
        coordinator_address=coordinator, num_processes=num_processes, process_id=process_id
    )
    who = f"{num_processes} hosts at {coordinator}" if coordinator else "the other hosts"
    with _patience(who, wait_seconds, say):
        try:
            jax.distributed.initialize(
                **(chosen if all(given) else {}),
                initialization_timeout=wait_seconds + SAY_EVERY,
                heartbeat_timeout_seconds=LOST_AFTER_SECONDS,
                shutdown_timeout_seconds=LOST_AFTER_SECONDS,
            )
        except (ValueError, RuntimeError) as error:
            if all(given) or "coordinator_address" not in str(error):
                reason = str(error).splitlines()[0]
                raise ValueError(f"The hosts of this run cannot be found: {reason}") from error
    return jax.process_index() == 0


@contextmanager
def _patience(who, limit, say):
    """Says every 30 s who is being waited for, and ends the process after `limit` seconds.

    A thread does it, as JAX waits for hosts in C++ and aborts when it gives up.
    """
    arrived = threading.Event()

    def watch():
        start = time.monotonic()
        while not arrived.wait(min(SAY_EVERY, max(0, start + limit - time.monotonic()))):
            waited = time.monotonic() - start
            if waited >= limit:
                say(
                    f"error: not all of {who} came within {limit} s; start the same command on "
                    f"every host, and see that they reach each other."
                )
                os._exit(75)  # they may come if it is tried again
            say(f"waiting for {who}: {waited:.0f} s; giving up after {limit} s")

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        arrived.set()


def check_same(what, make_data):
    """ValueError on every host if the bytes that their make_data() returns differ."""
    if jax.process_count() == 1:
        return
    sums = multihost_utils.process_allgather(np.uint32(zlib.crc32(make_data())))
    if len(set(np.ravel(sums).tolist())) > 1:
        raise ValueError(
            f"The hosts differ in {what}: give all of them the same files and the same command."
        )


def split_over_hosts(work, items):
    """work(items), a list of texts or numbers as long as items: each host does every n-th one."""
    count, index = jax.process_count(), jax.process_index()
    if count == 1:
        return work(items)
    parts = gather_from_hosts(json.dumps(work(items[index::count])).encode())
    done = [None] * len(items)
    for host, part in enumerate(parts):
        done[host::count] = json.loads(part)
    return done


def gather_from_hosts(data):
    """The bytes that each host calls it with, in the order of the hosts."""
    if jax.process_count() == 1:
        return [data]
    sizes = multihost_utils.process_allgather(np.int32(len(data)))
    padded = np.zeros(sizes.max(), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    everyone = multihost_utils.process_allgather(padded)
    return [bytes(row[:size]) for row, size in zip(everyone, sizes, strict=True)]


def wait_for_all(what):
    """Until every host has come here."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


def wait_until(is_true, seconds=60):
    """Whether it comes true: folders that hosts share may show a new file late."""
    deadline = time.monotonic() + seconds
    while not is_true() and time.monotonic() < deadline:
        time.sleep(0.5)
    return is_true()


def exit_process(code):
    """Ends this process at once if others wait for it: they learn of it now, and not by silence."""
    if jax.distributed.is_initialized() and jax.process_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
