"""Shows, logs and draws the metrics of a run: a live line on a terminal, plain lines elsewhere."""

import math
import platform
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax

import transformer
from transformer.checkpoint.about import lost_records
from transformer.config import Config
from transformer.console import Pace, live_line, phase, say
from transformer.evaluation import plots
from transformer.training.event_files import EventFile
from transformer.workdir import WorkDir

ROOT = Path(transformer.__file__).parents[1]
PACKAGES = "jax jaxlib flax optax orbax-checkpoint numpy sacrebleu sentencepiece"
OnReport = Callable[[int, dict[str, float]], object]
DRAWING_SHARE = 0.02  # of the time, at most, goes into drawing curves


class Progress:
    """Shows metrics; logs them to metrics.jsonl and TensorBoard; draws their curves.

    step: the last one before this start. on_report: called with (step, metrics) for each record, on
    the host that writes.
    """

    def __init__(
        self, workdir: WorkDir, config: Config, step: int = 0, on_report: OnReport | None = None
    ) -> None:
        self._workdir, self._num_steps = workdir, config.training.num_train_steps
        self._on_report = on_report if workdir.writes else None
        self._line = live_line()
        self._line.is_silent |= not workdir.writes
        self._clock = self._line.clock
        self._events = EventFile(workdir, step, config)
        self._last_step, self._pace = step, Pace(self._clock)  # since the first line
        self._last_drawn = self._clock()
        self._drawing_seconds = 0.5  # of the last picture; a guess for the first

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends the metrics of a step to metrics.jsonl and TensorBoard."""
        self._workdir.append_metrics({"step": step, **metrics})
        self._events.add_metrics(step, metrics)
        if self._on_report:
            self._on_report(step, dict(metrics))

    def log_samples(self, step: int, samples: Sequence[str]) -> None:
        """Appends outputs for the validation set to samples.txt and TensorBoard."""
        self._workdir.append_samples(step, samples[:20])
        self._events.add_samples(step, samples)

    @property
    def is_due(self) -> bool:
        """Whether so much time has passed since the last line that a person wants another."""
        return self._line.is_due

    def show(self, step: int, metrics: Mapping[str, float], *, is_passing: bool = False) -> None:
        """Shows the line of a training step: step, loss, learning rate, tokens/s, time left.

        is_passing: whether it is shown because it `is_due`, and not a report.
        """
        self._pace.add(step - self._last_step)
        self._last_step = step
        loss = "" if math.isnan(metrics["loss"]) and is_passing else f"loss {metrics['loss']:.4f}  "
        time_left = self._pace.time_left(self._num_steps - step)
        text = (
            f"step {step:>6,}/{self._num_steps:,}  {loss}"
            f"lr {metrics['learning_rate']:.2e}  {metrics['tokens_per_second']:>7,.0f} tokens/s"
            f"{time_left and f'  {time_left}'}{_format_shares(metrics)}"
        )
        self._line.show(text, is_passing=is_passing)

    def draw_curves(self, *, is_last: bool = False) -> None:
        """Draws curves.png from what was logged so far, unless that would take too much time.

        A failure costs the run nothing. is_last: whether to draw however long it takes.
        """
        start = self._clock()
        due = self._last_drawn + self._drawing_seconds / DRAWING_SHARE
        if not self._workdir.writes or (start < due and not is_last):
            return
        try:
            records, path = self._workdir.read_metrics(), self._workdir / "curves.png"
            with phase("drawing the curves"):
                plots.plot_curves(records, path, str(self._workdir.path))
        except Exception as error:  # any type: a run is worth more than its picture
            if is_last:
                say(f"curves.png was not drawn: {error}")
        self._last_drawn = self._clock()
        self._drawing_seconds = self._last_drawn - start

    def close(self) -> None:
        """Flushes metrics and events, and leaves the last line as it is; raises OSError."""
        self._workdir.flush()
        self._events.close()
        self._line.close()


def open_progress(
    workdir: WorkDir,
    config: Config,
    step: int,
    about: Mapping[str, Any],
    on_report: OnReport | None,
) -> Progress:
    """Returns the progress of a run that goes on after `step`, and notes this start of it.

    What an interrupted run logged of later steps is forgotten. about: what the checkpoint of that
    step holds; if records that were in metrics.jsonl then are lost, that is said.
    """
    workdir.forget_metrics_after(step)
    if lost := lost_records(workdir, about):
        say(f"warning: {lost}")
    workdir.append_start(step, describe_environment())
    return Progress(workdir, config, step, on_report)


def _format_shares(metrics: Mapping[str, float]) -> str:
    """Returns utilisation where it is known, and waiting and skipped steps where there are any."""
    text = f"  {metrics['utilisation']:.1%} of bf16 peak" if "utilisation" in metrics else ""
    if metrics["input_wait"] > 0.01:
        text += f"  {metrics['input_wait']:.0%} waiting for data"
    return text + (f"  {metrics['skipped']:.0f} skipped" if metrics["skipped"] else "")


def describe_environment() -> dict[str, Any]:
    """Returns a JSON object that describes this process and its machine."""
    versions = {name: metadata.version(name) for name in PACKAGES.split()}
    return {
        "command": sys.orig_argv,
        "host": socket.gethostname(),
        "num_hosts": jax.process_count(),
        "devices": Counter(device.device_kind for device in jax.devices()),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "packages": {"transformer": transformer.__version__, **versions},
        "commit": _commit(),
    }


def _commit() -> str | None:
    """Returns the commit of the checkout, "…-dirty" if files differ; None if there is none."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"]
        with suppress(OSError, subprocess.SubprocessError):
            output = subprocess.check_output(command, timeout=5, stderr=subprocess.DEVNULL)
            return output.decode().strip()
    return None
