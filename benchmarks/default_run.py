"""Contestant: what `make train` does, from the first import to the scores of the test set."""

import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

from workload import Workload

ROOT = pathlib.Path(__file__).resolve().parents[1]


def make_step(workload: Workload, flags: list[str]) -> Callable[[], None]:
    """Returns a function that trains in a new folder; flags: more of those of train.py."""
    del workload

    def step() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "train.py", f"--workdir={folder}/run", *flags]
            subprocess.run(command, check=True, cwd=ROOT)

    return step
