"""What a process holds while it works: memory, files, threads and compiled programs."""

import ctypes
import gc
import os
from pathlib import Path
from statistics import median

import jax

ALLOWED_SHARE, ALLOWED_KIB = 0.02, 10 << 10  # by which memory may grow in the last half


class Resources:
    """Samples what this process holds. programs: how many were compiled, as of the last sample."""

    def __init__(self):
        self.samples, self._num_programs = [], 0
        jax.monitoring.register_event_duration_secs_listener(self._count)

    def _count(self, event, seconds, **_):
        self._num_programs += event == "/jax/core/compile/backend_compile_duration"

    def sample(self):
        """Appends what is held now to `samples`; memory in KiB.

        To be called after each save, evaluation or chunk, when none is under way.
        """
        gc.collect()  # else it would depend on when that happens by itself
        ctypes.CDLL(None).malloc_trim(0)  # what is freed: glibc keeps some of it, by its threads
        lines = Path("/proc/self/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        self.samples.append(
            {
                "memory": int(status["RssAnon"].split()[0]),
                "files": len(os.listdir("/proc/self/fd")),
                "threads": int(status["Threads"]),
                "programs": self._num_programs,
            }
        )


def grown(samples):
    """{what grew in the last half: (before, after)}, by the medians of two quarters of the samples.

    What is left behind once per sample grows by half of their number from the median of the one
    quarter to that of the other. Half of that is allowed, as pools of threads still grow to their
    size. No program may be compiled anew.
    """
    quarter = len(samples) // 4
    allowed = {"files": quarter, "threads": quarter}
    parts = samples[quarter : 2 * quarter], samples[-quarter:]
    found = {}
    for name in samples[0]:
        before, after = (median(sample[name] for sample in part) for part in parts)
        slack = allowed.get(name, 0)
        if name == "memory":
            slack = ALLOWED_SHARE * before + ALLOWED_KIB
        if after > before + slack:
            found[name] = before, after
    return found
