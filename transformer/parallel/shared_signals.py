"""Catches signals for a run, and passes one to a host on to the others.

Without this, the other hosts would go on computing while the one that is stopping waits for them.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import RawIOBase
from itertools import count
from typing import Any

import jax
from jax._src.distributed import global_state  # its key-value store has no other name

from transformer.signals import CAUGHT, Stopping

EVERY = 1.0  # seconds between two looks at what the others were sent
_numbers = count()  # of the blocks, which every host enters in the same order


@contextmanager
def catching_signals(stopping: Stopping) -> Iterator[None]:
    """Lets signals to any host stop the run inside the block, if this is the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in CAUGHT}
    stopping.catch_signals()
    try:
        with _sharing_signals():
            yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _sharing_signals() -> Iterator[None]:
    """Sends this process SIGTERM inside the block if another host is sent a signal.

    A signal is passed on at once, also while this host waits for another one in C++, where Python
    handles none.
    """
    if jax.process_count() == 1:
        yield
        return
    read, write = os.pipe()
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write)
    key = f"transformer_signals/{next(_numbers)}"
    client = global_state.client
    threading.Thread(target=_share, args=(client, read, key), daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(write)


def _share(client: Any, read: int, key: str) -> None:
    """Tells the other hosts of signals whose numbers come from `read`, and takes theirs."""
    is_told = False
    with open(read, "rb", buffering=0) as own, suppress(RuntimeError):  # another host is lost
        while True:
            if _is_readable(own):
                if not (numbers := own.read(64)):
                    return
                if not is_told and set(numbers) & set(CAUGHT):
                    is_told = True
                    client.key_value_set(f"{key}/signal", "", allow_overwrite=True)
            elif not is_told and client.key_value_dir_get(key):
                is_told = True
                if not _is_readable(own):  # a scheduler sends every host a signal of its own
                    os.kill(os.getpid(), signal.SIGTERM)


def _is_readable(file: RawIOBase) -> bool:
    return bool(select.select([file], [], [], EVERY)[0])
