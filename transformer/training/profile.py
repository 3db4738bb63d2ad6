"""Traces some steps of a run with JAX's profiler, into the folder `profile` of its work directory.

TensorBoard's profile plugin, xprof and Perfetto show the trace: what the devices compute, and what
the host does meanwhile, under the names `train` (a step), `input` and `evaluation`.
"""

import re
import socket
import tempfile
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import jax
from etils import epath

from transformer import storage
from transformer.console import phase, say
from transformer.workdir import WorkDir

annotate = jax.profiler.TraceAnnotation  # `with annotate("input"):` names what is done in a trace
Pause = Callable[[], AbstractContextManager[None]]


class Profile:
    """The trace of some consecutive steps of a run, which it starts and stops.

    steps: those to trace, counted from 1. folder: where to save the trace, a local one or gs://.
    """

    def __init__(self, steps: range, folder: epath.Path) -> None:
        self._steps, self._folder = steps, folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None  # while it is running
        self._last = 0  # the step that was marked last

    @contextmanager
    def step(self, step: int, pause: Pause) -> Generator[None]:
        """Marks a training step in the trace, which starts or stops before it if that is due.

        pause: waits for the devices, so that no step is cut in two, and leaves the time that
        starting or stopping takes out of the reported speed.
        """
        if self._temporary and step not in self._steps:
            self.close(pause)
        elif self._steps and not self._temporary:
            self._start(step, pause)
        self._last = step
        with jax.profiler.StepTraceAnnotation("train", step_num=step):
            yield

    def close(self, pause: Pause) -> None:
        """Saves the trace if it is running, as it is when a run ends early."""
        if self._temporary:
            self._steps = range(self._steps[0], self._last + 1)
            with pause():
                self._try(self._save)
            self._steps = range(0)

    def _start(self, step: int, pause: Pause) -> None:
        if step in self._steps:
            with pause():
                self._try(self._begin)
        elif step > self._steps[-1]:
            say(f"no profile: the run goes on with step {step:,}, after {self._name}")
            self._steps = range(0)

    def _try(self, work: Callable[[], None]) -> None:
        """Does `work`; if it fails, the trace is given up: the run is worth more."""
        try:
            work()
        except Exception as error:  # of several types: files, the object store, another trace
            say(f"warning: {self._name} cannot be profiled: {error}")
            self._steps = range(0)

    @property
    def _name(self) -> str:
        first, last = self._steps[0], self._steps[-1]
        return f"steps {first:,} to {last:,}" if first < last else f"step {first:,}"

    def _begin(self) -> None:
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # each call in Python would slow the host, and fill files
        temporary = tempfile.TemporaryDirectory(prefix="profile_")  # JAX writes to local ones only
        jax.profiler.start_trace(temporary.name, profiler_options=options)
        self._temporary = temporary

    def _save(self) -> None:
        temporary, self._temporary = self._temporary, None
        assert temporary  # as the trace is running
        with phase("saving the profile"), temporary as name:
            jax.profiler.stop_trace()
            for file in sorted(path for path in Path(name).rglob("*") if path.is_file()):
                copy = self._folder / file.relative_to(name).as_posix()
                copy.parent.mkdir(parents=True, exist_ok=True)
                storage.write_atomically(copy, file.read_bytes())
        say(
            f"profile of {self._name}: {self._folder}; to look at it: pip install xprof, then "
            f"xprof --logdir={self._folder}; or open its *.trace.json.gz at "
            f"https://ui.perfetto.dev"
        )


NO_PROFILE = Profile(range(0), epath.Path())


def make_profile(text: str, workdir: WorkDir, num_train_steps: int) -> Profile:
    """Returns the Profile that --profile asks for, on the host that writes.

    text: "STEP:COUNT" for the COUNT steps after STEP, or "". num_train_steps: of the run; 0 if they
    are not known yet. Raises ValueError if `text` is anything else, or the run has ended by then.
    """
    if not text:
        return NO_PROFILE
    found = re.fullmatch(r"(\d+):([1-9]\d*)", text)
    if not found:
        raise ValueError(
            f"--profile must be STEP:COUNT, as 100:5 for the 5 steps after step 100, not '{text}'."
        )
    start, count = int(found[1]), int(found[2])
    if 0 < num_train_steps <= start:
        raise ValueError(
            f"--profile={text} begins after the last step of the run, {num_train_steps:,}; name an "
            f"earlier one."
        )
    if not workdir.writes:
        return NO_PROFILE
    return Profile(range(start + 1, start + count + 1), workdir / "profile")


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
