"""Traces some steps of a run with JAX's profiler, into the folder `profile` of its work directory.

TensorBoard's profile plugin, xprof and Perfetto show the trace: what the devices compute, and what
the host does meanwhile, under the names `train` (a step), `input` and `evaluation`.
"""

import re
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import jax
from etils import epath

from transformer.console import say
from transformer.files.storage import is_remote
from transformer.workdir import WorkDir

annotate = jax.profiler.TraceAnnotation  # `with annotate("input"):` names what is done in a trace


class Profile:
    """The trace of some consecutive steps of a run, which it starts and stops.

    steps: those to trace, counted from 1. folder: where to save the trace, a local one.
    """

    def __init__(self, steps: range = range(0), folder: epath.PathLike = "") -> None:
        self._steps, self._folder, self._is_running = steps, folder, False

    def step(
        self, step: int, pause: Callable[[], AbstractContextManager[None]]
    ) -> AbstractContextManager[Any]:
        """Returns the mark of a training step; starts or stops the trace before it if that is due.

        pause: waits for the devices, so that no step is cut in two, and leaves the time that
        starting or stopping takes out of the reported speed.
        """
        if (step in self._steps) != self._is_running:
            with pause():
                self.close() if self._is_running else self._start()
        return jax.profiler.StepTraceAnnotation("train", step_num=step)

    def _start(self) -> None:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # each call in Python would slow the host
        jax.profiler.start_trace(self._folder, profiler_options=options)
        self._is_running = True

    def close(self) -> None:
        """Saves the trace if it is running, as it is when a run ends early."""
        if self._is_running:
            self._is_running = False
            jax.profiler.stop_trace()
            say(f"profile: {self._folder}; to look at it: xprof --logdir={self._folder}")


def make_profile(text: str, workdir: WorkDir, num_train_steps: int) -> Profile:
    """Returns the Profile that --profile asks for, on the host that writes.

    text: "STEP:COUNT" for the COUNT steps after STEP, or "". num_train_steps: of the run; 0 if they
    are not known yet. Raises ValueError if `text` is anything else, the run has ended by then, or
    its work directory is not a local one.
    """
    if not text:
        return Profile()
    match = re.fullmatch(r"(\d+):([1-9]\d*)", text)
    if not match:
        raise ValueError(
            f"--profile must be STEP:COUNT, as 100:5 for the 5 steps after step 100, not '{text}'."
        )
    start, count = map(int, match.groups())
    if 0 < num_train_steps <= start:
        last = f"{num_train_steps:,}"
        raise ValueError(f"--profile={text} begins after the last step of the run, {last}.")
    if is_remote(workdir.path):
        raise ValueError(
            f"--profile writes to local folders only, not to {workdir.path}: use --profiler_port."
        )
    steps = range(start + 1, start + count + 1) if workdir.writes else range(0)
    return Profile(steps, workdir / "profile")


def serve_profiles(port: int) -> None:
    """Lets xprof or TensorBoard capture a profile of this process at a port, at any time.

    Raises ValueError if the port is not free.
    """
    try:
        with socket.socket() as probe:
            probe.bind(("", port))  # JAX would only log that it cannot
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"--profiler_port must be a free port of this machine, not {port} ({error})."
        ) from None
    jax.profiler.start_server(port)
