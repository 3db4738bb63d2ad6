"""One contestant in a process of its own: reads numbers of steps, replies with seconds.

Started by `train_step.py` with a task as JSON. It replies once when it is ready, after two steps
that are not measured, and then to every line that asks for so many steps.
"""

import importlib
import importlib.metadata
import json
import math
import os
import sys
import time

from workload import Workload

VERSIONS_OF = "jax", "jaxlib", "flax", "torch"
XLA_COMPILE = "/jax/core/compile/backend_compile_duration"


def use_cores(number):
    """Keeps this process, and every thread pool that it makes, to so many cores (on Linux)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])


def count_compiles():
    """A list that grows by the seconds of each XLA compile from now on; None without JAX."""
    if "jax" not in sys.modules:
        return None
    seconds = []

    def listen(event, duration, **_):
        if event == XLA_COMPILE:
            seconds.append(duration)

    sys.modules["jax"].monitoring.register_event_duration_secs_listener(listen)
    return seconds


def timed_steps(step, num_steps):
    """Seconds that `num_steps` took, the device's work included."""
    start = time.perf_counter()
    for _ in range(num_steps):
        loss = step()
    loss = loss.item()  # waits for all of the last step
    seconds = time.perf_counter() - start
    if not 0 < loss < math.inf:
        raise FloatingPointError(f"The loss must be positive and finite, not {loss}.")
    return seconds


def serve(task, reply):
    """Makes the contestant, says so, and runs the steps that standard input asks for."""
    workload = Workload(**task["workload"])
    if workload.device == "cpu":
        use_cores(workload.num_threads)
    try:
        contestant = importlib.import_module(task["module"])
        step = contestant.make_step(workload, **task["options"])
    except ImportError as error:
        reply(left_out=str(error))
        return
    compiles = count_compiles()
    warm_up = sum(timed_steps(step, 1) for _ in range(2))  # JAX may compile anew for its own output
    versions = {
        name: importlib.metadata.version(name) for name in VERSIONS_OF if name in sys.modules
    }
    reply(warm_up=warm_up, versions=versions)
    for line in sys.stdin:
        seconds = timed_steps(step, int(line))
        reply(seconds=seconds, compiles=None if compiles is None else len(compiles))


def main():
    """Standard output is for replies; whatever a library prints goes to standard error."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), lambda **values: output.write(json.dumps(values) + "\n"))


if __name__ == "__main__":
    main()
