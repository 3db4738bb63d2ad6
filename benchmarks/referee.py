"""Measures contestants side by side, each in a process of its own; one works at a time."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
BUSY = (
    "Other work is running. OpenMP's threads (PyTorch's, CTranslate2's) wait by spinning and can "
    "be ten times slower when they have to share cores: set OMP_WAIT_POLICY=PASSIVE, or measure "
    "on an idle machine."
)
Contestant = tuple[str, str, dict[str, Any]]  # (python, module, options)
PAUSE = 0.5  # seconds after each turn, in which a contestant's threads stop spinning


class Worker:
    """The process of a contestant, which is idle between requests; settings: more of `Popen`'s."""

    def __init__(
        self,
        python: str,
        workload: Any,
        module: str,
        options: dict[str, Any],
        **settings: Any,
    ) -> None:
        task = {"workload": dataclasses.asdict(workload), "module": module, "options": options}
        task["kind"] = type(workload).__name__
        environment = {"CUDA_VISIBLE_DEVICES": "0"} | dict(os.environ)
        environment |= {
            "JAX_PLATFORMS": "cuda" if workload.device == "gpu" else workload.device,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes share one GPU
            "PYTHONPATH": str(HERE.parent),
        }
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            **settings,
        )

    def read(self) -> dict[str, Any]:
        """Returns its next reply; {} if it ended instead."""
        return json.loads(self._process.stdout.readline() or "{}")

    def ask(self, **request: Any) -> dict[str, Any]:
        """Sends a request, as `worker` describes it, and returns the reply."""
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply = self.read()
        if not reply:
            raise RuntimeError("A contestant ended while it was measured; see its message above.")
        return reply

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()

    def kill(self) -> None:
        """Ends it and all processes of its session at once, if it was started in a new one."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


def start_workers(
    workload: Any, contestants: dict[str, Contestant], warm_ups: list[dict[str, Any]]
) -> tuple[dict[str, Worker], dict[str, dict[str, Any]]]:
    """Starts the contestants, one after the other, so that no two compile at a time.

    Returns {name: worker} and {name: {"versions", "warm_ups" (seconds of each)}} of those that
    could start. warm_ups: the first requests to each.
    """
    workers, ready = {}, {}
    for name, (python, module, options) in contestants.items():
        worker = Worker(python, workload, module, options)
        reply = worker.read()
        if "versions" in reply:
            reply["warm_ups"] = [worker.ask(**request)["seconds"] for request in warm_ups]
            workers[name], ready[name] = worker, reply
        else:
            worker.close()
            print(f"{name} is skipped: {reply.get('skipped', 'it ended, see above')}", flush=True)
    if not workers:
        raise SystemExit("No contestant is left.")
    return workers, ready


def measure(
    workers: dict[str, Worker], num_rounds: int, request: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Sends a request to every contestant in every round, beginning with another one each.

    Returns {name: {"seconds", "cpu" (per repetition, by round), "compiles", "note"}}.
    """
    results = {name: {"seconds": [], "cpu": []} for name in workers}
    for turn in range(num_rounds):
        names = list(workers)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            reply = workers[name].ask(**request)
            for key in ("seconds", "cpu"):
                results[name][key].append(reply[key] / request["times"])
            results[name] |= {key: reply[key] for key in ("compiles", "note")}
            time.sleep(PAUSE)
    return results


def begin_report(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the conditions of a measurement for its JSON file, and prints them."""
    report = {
        "machine": describe_machine(arguments.device),
        "load": os.getloadavg()[0],
        "date": datetime.date.today().isoformat(),
        "arguments": vars(arguments),
    }
    print(f"{report['date']}, {report['machine']}, load {report['load']:.1f} at the start")
    if report["load"] > 1 and arguments.device == "cpu":
        print(BUSY)
    return report


def check_device(parser: argparse.ArgumentParser, device: str) -> None:
    """Ends the program with an error if the device is a GPU and there is none."""
    if device == "gpu" and not shutil.which("nvidia-smi"):
        parser.error("--device=gpu needs an NVIDIA GPU, and there is no nvidia-smi to name it")


def write_json(path: str, report: Any) -> None:
    """Writes what was measured as JSON."""
    write_text(path, json.dumps(report, indent=2) + "\n")


def write_text(path: str, text: str) -> None:
    """Writes a file so that a reader finds it whole, the old one or the new one."""
    pathlib.Path(f"{path}.new").write_text(text, encoding="utf-8")
    os.replace(f"{path}.new", path)


def describe_machine(device: str) -> str:
    """Returns the processor and its cores, after the name of the GPU if that is the device."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(": ", 1)[1] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{(models or [platform.processor()])[0]}, {cores} cores"
    if device == "gpu":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        text = f"{subprocess.check_output(query, text=True).splitlines()[0]}; {text}"
    return text
