"""Runs a part of `accelerator.py` in a process of its own and ends it when its time is over."""

import pathlib
import re
import threading
import time
from statistics import median
from typing import Any

from accelerator_parts import Part, Task
from referee import Worker
from table import utilisation
from workload import Workload

WARM_UPS = 3  # JAX may compile anew for its own output
ROUNDS, ROUND_SECONDS, MAX_TIMES = 5, 1.0, 50
ERROR = re.compile(r"[\w.]+(Error|Exception|Exit)\b")  # as Python ends a traceback
Row = dict[str, Any]


def run_part(part: Part, folder: str, seconds: float) -> list[Row]:
    """Returns a row for each request of the part: what was measured, or why nothing was.

    folder: for files, among them the log of the process. seconds: after which it is ended.
    """
    start, rows = time.monotonic(), []
    log = pathlib.Path(folder) / "log"
    task = part.make_task(folder)
    python, module, options = part.process
    with log.open("w") as file:
        worker = Worker(python, task.workload, module, options, stderr=file, start_new_session=True)
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        worker.kill()

    timer = threading.Timer(max(0.0, seconds - (time.monotonic() - start)), end)
    timer.start()
    try:
        ready = worker.read()
        if "skipped" in ready:
            return [_row(part, "", remark=ready["skipped"])]
        for name, request in task.requests.items():
            rows.append(_row(part, name))
            _measure(worker, task, request, rows[-1])
            _count(rows[-1], task, ready["device"])
    except (OSError, RuntimeError, KeyError):  # the process has ended
        rows = rows or [_row(part, "")]
        rows[-1]["remark"] = f"cut off after {seconds:,.0f} s" if is_over.is_set() else _why(log)
        if rows[-1]["seconds"]:
            _count(rows[-1], task, ready["device"])
    finally:
        timer.cancel()
        worker.kill()
    return rows


def _row(part: Part, request: str, remark: str = "") -> Row:
    """Returns a row without figures; `seconds` are per step or search, of each round."""
    return {
        "task": ", ".join(filter(None, (part.task, request))),
        "contestant": part.contestant,
        "seconds": [],
        "first": None,
        "tokens_per_second": None,
        "mfu": None,
        "remark": remark,
    }


def _measure(worker: Worker, task: Task, request: dict[str, Any], row: Row) -> None:
    """Measures one request: rounds of about a second, after the first ones."""
    row["first"] = last = worker.ask(times=1, options=request)["seconds"]
    if not task.is_repeated:
        row["seconds"].append(last)
        return
    for _ in range(WARM_UPS - 1):
        last = worker.ask(times=1, options=request)["seconds"]
    times = max(1, min(MAX_TIMES, round(ROUND_SECONDS / last)))
    for _ in range(ROUNDS):
        row["seconds"].append(worker.ask(times=times, options=request)["seconds"] / times)


def _count(row: Row, task: Task, device_kind: str) -> None:
    """Adds tokens/s and the utilisation to a row with seconds."""
    seconds = median(row["seconds"])
    if task.num_tokens:
        row["tokens_per_second"] = task.num_tokens / seconds
    if task.num_tokens and isinstance(task.workload, Workload):
        row["mfu"] = utilisation(task.workload, seconds, device_kind)


def _why(log: pathlib.Path) -> str:
    """Returns the error that ended a process, from what it wrote; else its last line."""
    lines = log.read_text(errors="replace").strip().split("\n")
    errors = [line for line in lines if ERROR.match(line)]
    return f"failed: {(errors or lines)[-1][:200]}"
