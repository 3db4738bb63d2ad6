"""One contestant in a process of its own: reads what to do and how often, replies with seconds.

Started by `referee.py` with a task as JSON. It replies once when it is ready, and then to every
line of JSON, {"times": n, "options": {…}, "show": whether to send the result back}. A contestant is
a module with make_step(workload, **options) or make_search(workload, **options); what that returns
is what is timed, and may say something of itself in `note`.
"""

import importlib
import importlib.metadata
import json
import math
import os
import sys
import time

from search_workload import SearchWorkload
from workload import Workload

KINDS = {kind.__name__: kind for kind in (Workload, SearchWorkload)}
VERSIONS_OF = "jax", "jaxlib", "flax", "torch", "transformers", "ctranslate2"
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


def timed(work, times, options):
    """({"seconds", "cpu" (of all threads)} of so many times, to the device's end; last result)."""
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        result = work(**options)
    if hasattr(result, "item"):  # a loss: waits for all of the last step
        result = result.item()
    spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    if isinstance(result, float) and not 0 < result < math.inf:
        raise FloatingPointError(f"The loss must be positive and finite, not {result}.")
    return spent, result


def make_work(task):
    """The function to time."""
    workload = KINDS[task["kind"]](**task["workload"])
    if workload.device == "cpu":
        use_cores(workload.num_threads)
    contestant = importlib.import_module(task["module"])
    make = getattr(contestant, "make_step", None) or contestant.make_search
    return make(workload, **task["options"])


def serve(task, reply):
    """Makes the contestant, says so, and does what standard input asks for."""
    try:
        work = make_work(task)
    except ImportError as error:
        reply(left_out=str(error))
        return
    compiles = count_compiles()
    names = [name for name in VERSIONS_OF if name in sys.modules]
    reply(versions={name: importlib.metadata.version(name) for name in names})
    for line in sys.stdin:
        question = json.loads(line)
        spent, result = timed(work, question["times"], question.get("options", {}))
        reply(
            **spent,
            compiles=None if compiles is None else len(compiles),
            note=getattr(work, "note", None),
            result=result if question.get("show") else None,
        )


def main():
    """Standard output is for replies; whatever a library prints goes to standard error."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), lambda **values: output.write(json.dumps(values) + "\n"))


if __name__ == "__main__":
    main()
