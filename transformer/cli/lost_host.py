"""Ends this process in one sentence where JAX would abort it, because another host is lost.

A thread of JAX in C++ notices the loss, writes a stack to standard error and aborts. Two options of
jaxlib 0.10 do not prevent that: a `missed_heartbeat_callback` ends in std::bad_cast, and
`jax_enable_recoverability` does not cover the loss of host 0. An abort of C++ for another reason
leaves Python's traceback, as on one host.
"""

import ctypes
import faulthandler
import os
import re
import signal
import sys
import threading
from typing import BinaryIO

from transformer.cli.process import fail, sentence_for_lost_host
from transformer.signals import RESUMABLE

ABORT = re.compile(rb"JAX distributed service detected fatal errors(?:.*Status: (.*))?")
BEGINNING = re.compile(rb"[IWEF]\d{4} ")  # of a message of C++
FATAL = re.compile(rb"F\d{4} ")  # after such a message C++ aborts
HIDDEN = re.compile(rb"E.* coordination_service")  # errors that the sentence sums up


def end_when_a_host_is_lost() -> None:
    """Reads what C++ writes to standard error from now on; Python writes there as before."""
    if not sys.stderr:
        return
    sys.stderr.flush()
    shown, (read, write) = os.dup(2), os.pipe()
    os.dup2(write, 2)
    os.close(write)
    options = {"encoding": sys.stderr.encoding, "errors": sys.stderr.errors}
    sys.stderr = open(shown, "w", buffering=1, **options)  # noqa: SIM115
    faulthandler.enable()
    libc = ctypes.CDLL(None)
    # abort() then calls sleep(6), as SIGABRT is 6: the thread has six seconds to end the process,
    # or to print the traceback, as SIGABRT no longer reaches faulthandler.
    libc.signal(signal.SIGABRT, ctypes.cast(libc.sleep, ctypes.c_void_p))
    threading.Thread(target=_pass_on, args=(read, shown), daemon=True).start()


def _pass_on(read: int, shown: int) -> None:
    """Copies what comes from `read` to `shown`, and ends the process where JAX is to abort it."""
    is_hidden = False
    with open(read, "rb") as lines:
        for line in lines:
            if abort := ABORT.search(line):
                fail(sentence_for_lost_host(_reason(abort, lines)), RESUMABLE)
            if BEGINNING.match(line):
                is_hidden = bool(HIDDEN.match(line))
            if not is_hidden:
                os.write(shown, line)
            if FATAL.match(line):
                faulthandler.dump_traceback(sys.stderr)


def _reason(abort: re.Match[bytes], lines: BinaryIO) -> str:
    reason = (abort[1] or b"it gave no reason").strip()
    if reason.endswith(b":"):  # the numbers of the hosts are in a line of their own
        reason += b" " + lines.readline().strip()
    return reason.decode(errors="replace")
