"""The process of one contestant: reads requests and replies with seconds.

`referee.py` starts it with a task as JSON. It replies once when it is ready, and then to every line
of JSON, {"times": n, "options": {…}, "show": whether to send the result back}. A contestant is a
module with make_step(workload, **options) or make_search(workload, **options); the function that
this returns is timed, and its attribute `note`, if it has one, is reported.
"""

import importlib
import importlib.metadata
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from search_workload import SearchWorkload
from workload import Workload

KINDS = {kind.__name__: kind for kind in (Workload, SearchWorkload)}
VERSIONS_OF = "jax", "jaxlib", "flax", "torch", "transformers", "ctranslate2"
XLA_COMPILE = "/jax/core/compile/backend_compile_duration"


def use_cores(number: int) -> None:
    """Restricts this process, and every thread pool that it makes, to `number` cores (on Linux)."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:number])


def count_compiles() -> list[float] | None:
    """Returns a list to which the seconds of each later XLA compile are added; None without JAX."""
    if "jax" not in sys.modules:
        return None
    seconds: list[float] = []

    def listen(event: str, duration: float, **_: Any) -> None:
        if event == XLA_COMPILE:
            seconds.append(duration)

    sys.modules["jax"].monitoring.register_event_duration_secs_listener(listen)
    return seconds


def timed(work: Callable, times: int, options: dict[str, Any]) -> tuple[dict[str, float], Any]:
    """Calls `work` that many times and waits for the device.

    Returns {"seconds", "cpu" (of all threads)} and the last result.
    """
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(times):
        result = work(**options)
    if hasattr(result, "item"):  # a loss: waits for all of the last step
        result = result.item()
    spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    if isinstance(result, float) and not 0 < result < math.inf:
        raise FloatingPointError(f"The loss must be positive and finite, not {result}.")
    return spent, result


def make_work(task: dict[str, Any]) -> Callable:
    """Returns the function to time."""
    workload = KINDS[task["kind"]](**task["workload"])
    if workload.device == "cpu":
        use_cores(workload.num_threads)
    contestant = importlib.import_module(task["module"])
    make = getattr(contestant, "make_step", None) or contestant.make_search
    return make(workload, **task["options"])


def device_kind() -> str:
    """Returns the name of the device that a training step runs on."""
    if "jax" in sys.modules:
        return sys.modules["jax"].devices()[0].device_kind
    torch = sys.modules.get("torch")
    return torch.cuda.get_device_name() if torch and torch.cuda.is_available() else "cpu"


def serve(task: dict[str, Any], reply: Callable[..., Any]) -> None:
    """Makes the contestant, reports that it is ready, and serves requests on standard input."""
    try:
        work = make_work(task)
    except ImportError as error:
        reply(skipped=str(error))
        return
    compiles = count_compiles()
    names = [name for name in VERSIONS_OF if name in sys.modules]
    versions = {name: importlib.metadata.version(name) for name in names}
    reply(versions=versions, device=device_kind() if task["kind"] == "Workload" else "")
    for line in sys.stdin:
        request = json.loads(line)
        spent, result = timed(work, request["times"], request.get("options", {}))
        reply(
            **spent,
            compiles=None if compiles is None else len(compiles),
            note=getattr(work, "note", None),
            result=result if request.get("show") else None,
        )


def main() -> None:
    """Keeps standard output for replies; whatever a library prints goes to standard error."""
    output = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    serve(json.loads(sys.argv[1]), lambda **values: output.write(json.dumps(values) + "\n"))


if __name__ == "__main__":
    main()
