"""Traces some steps of a run with JAX's profiler, into the folder `profile` of its work directory.

TensorBoard's profile plugin, xprof and Perfetto show the trace: what the devices compute, and what
the host does meanwhile, under the names `train` (a step), `input` and `evaluation`.
"""

import re
import socket

import jax

from transformer.console import say
from transformer.files.storage import is_remote
from transformer.workdir import WorkDir

# `with annotate("input"):` names what is done in a trace, `annotate_step` a step.
annotate, annotate_step = jax.profiler.TraceAnnotation, jax.profiler.StepTraceAnnotation


class Profile:
    """The trace of some consecutive steps of a run, made by the host that writes.

    text: "STEP:COUNT", for the COUNT steps after STEP. num_train_steps: of the run; 0 if they are
    not known yet. Raises ValueError if `text` is anything else, the run has ended by then, or its
    work directory is not a local one.
    """

    def __init__(self, text: str, workdir: WorkDir, num_train_steps: int) -> None:
        match = re.fullmatch(r"(\d+):([1-9]\d*)", text)
        start, count = map(int, match.groups()) if match else (0, 0)
        for is_wrong, said in (
            (not match, "must be STEP:COUNT, as 100:5 for the 5 steps after step 100"),
            (0 < num_train_steps <= start, f"begins after the last step, {num_train_steps:,}"),
            (is_remote(workdir.path), "writes to local folders only: use --profiler_port"),
        ):
            if is_wrong:
                raise ValueError(f"--profile={text} {said}.")
        self._steps = range(start + 1, start + count + 1) if workdir.writes else range(0)
        self._folder, self._is_running, self._has_begun = workdir / "profile", False, False

    def is_due(self, step: int) -> bool:
        """Whether the trace is to be started or ended before a step."""
        return (step in self._steps) != self._is_running

    def start_or_end(self) -> None:
        if self._is_running:
            self.close()
            return
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # each call in Python would slow the host
        jax.profiler.start_trace(self._folder, profiler_options=options)
        self._is_running = self._has_begun = True

    def close(self) -> None:
        """Saves the trace if it is running, as it is when a run ends early; says if none began."""
        if self._is_running:
            self._is_running = False
            jax.profiler.stop_trace()
            say(f"profile: {self._folder}; to look at it: xprof --logdir={self._folder}")
        elif self._steps and not self._has_begun:
            first, last = self._steps[0], self._steps[-1]
            say(f"warning: no profile, as steps {first:,} to {last:,} were not trained")


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
