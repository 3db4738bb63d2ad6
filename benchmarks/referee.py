"""Measures contestants side by side: each in a process of its own, one at work at a time."""

import dataclasses
import json
import os
import pathlib
import platform
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
BUSY = (
    "Other work is running. OpenMP's threads (PyTorch's, CTranslate2's) wait by spinning and can "
    "lose tenfold when they have to share cores: set OMP_WAIT_POLICY=PASSIVE, or measure on a "
    "quiet machine."
)
PAUSE = 0.5  # seconds after each turn, in which a contestant's threads stop spinning


class Worker:
    """A contestant's process, idle unless asked."""

    def __init__(self, python, workload, module, options):
        task = {"workload": dataclasses.asdict(workload), "module": module, "options": options}
        task["kind"] = type(workload).__name__
        environment = {"CUDA_VISIBLE_DEVICES": "0"} | dict(os.environ)
        environment |= {
            "JAX_PLATFORMS": "cuda" if workload.device == "gpu" else "cpu",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",  # several processes share one GPU
            "PYTHONPATH": str(HERE.parent),
        }
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def read(self):
        """Its next reply; {} where it ended instead."""
        return json.loads(self._process.stdout.readline() or "{}")

    def ask(self, **question):
        """The reply to one question; see `worker`."""
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        reply = self.read()
        if not reply:
            raise RuntimeError("A contestant ended while it was measured; see its message above.")
        return reply

    def close(self):
        """Ends it."""
        self._process.stdin.close()
        self._process.wait()


def start_workers(workload, contestants, warm_ups):
    """Returns {name: worker}, {name: {"versions", "warm_ups" (seconds of each)}}.

    warm_ups: the questions that are asked first; none compiles while another does.
    """
    workers, ready = {}, {}
    for name, (python, module, options) in contestants.items():
        worker = Worker(python, workload, module, options)
        reply = worker.read()
        if "versions" in reply:
            reply["warm_ups"] = [worker.ask(**question)["seconds"] for question in warm_ups]
            workers[name], ready[name] = worker, reply
        else:
            worker.close()
            print(f"{name} is left out: {reply.get('left_out', 'it ended, see above')}", flush=True)
    if not workers:
        raise SystemExit("No contestant is left.")
    return workers, ready


def measure(workers, num_rounds, question):
    """{name: {"seconds", "cpu" (of one time, by round), "compiles", "note"}} of a question."""
    results = {name: {"seconds": [], "cpu": []} for name in workers}
    for turn in range(num_rounds):
        names = list(workers)
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            reply = workers[name].ask(**question)
            for key in ("seconds", "cpu"):
                results[name][key].append(reply[key] / question["times"])
            results[name] |= {key: reply[key] for key in ("compiles", "note")}
            time.sleep(PAUSE)
    return results


def describe_machine(device):
    """Processor and cores, after the name of a GPU."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(": ", 1)[1] for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    text = f"{(models or [platform.processor()])[0]}, {cores} cores"
    if device == "gpu":
        query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        text = f"{subprocess.check_output(query, text=True).splitlines()[0]}; {text}"
    return text
