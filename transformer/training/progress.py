"""Shows, logs and draws the metrics of a run: a live line on a terminal, plain lines elsewhere."""

import json
import math
import platform
import socket
import subprocess
import sys
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from etils import epath
from tensorboardX import SummaryWriter
from tensorboardX.record_writer import register_writer_factory

import transformer
from transformer.checkpoint.about import lost_records
from transformer.config import Config
from transformer.console import Pace, live_line, phase, say
from transformer.evaluation import plots
from transformer.files.appending import append_bytes
from transformer.files.storage import is_remote
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


GROUPS = {  # of the names that do not begin with that of a split, and are not of "train"
    "system": ("tokens_per_second", "input_wait", "utilisation", "device_memory_gib"),
    "progress": ("epoch", "seconds", "device_hours", "target_tokens"),
    "": ("num_train_steps", "selection_score"),  # not for TensorBoard
}
SCHEME = "events"  # by which tensorboardX knows that we write its files
NUM_SAMPLES = 8  # per validation


class EventFile:
    """The events of one start of a run: metrics in groups, samples, and the settings.

    num_steps_done: the steps before this start; TensorBoard forgets the events of later ones.
    config: shown as text if it is given.
    """

    def __init__(self, workdir: WorkDir, num_steps_done: int, config: Config | None = None) -> None:
        register_writer_factory(SCHEME, _EventsFactory())
        self._writer = SummaryWriter(
            f"{SCHEME}:{workdir.path}",
            purge_step=num_steps_done + 1,
            write_to_disk=workdir.writes,
            flush_secs=120 if is_remote(workdir.path) else 10,
        )
        if config and not num_steps_done:
            rows = [f"|{name}|{json.dumps(value)}|" for name, value in config.values().items()]
            self._writer.add_text("settings", "\n".join(["|setting|value|", "|-|-|", *rows]), 0)

    def add_metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        """Adds each metric under its tag."""
        for name, value in metrics.items():
            if tag := tag_of(name):
                self._writer.add_scalar(tag, value, step)

    def add_samples(self, step: int, samples: Sequence[str]) -> None:
        """Adds outputs for the validation set, as they are."""
        text = textwrap.dedent("\n\n".join(samples[:NUM_SAMPLES]))
        self._writer.add_text("samples", textwrap.indent(text, "    "), step)  # Markdown's code

    def close(self) -> None:
        """Writes what was added and ends the writer's thread."""
        self._writer.close()


def tag_of(name: str) -> str:
    """Returns the tag of a metric of metrics.jsonl; "" for what is no metric.

    >>> tag_of("validation_bleu"), tag_of("gradient_norm"), tag_of("input_wait")
    ('validation/bleu', 'train/gradient_norm', 'system/input_wait')
    """
    split, _, rest = name.partition("_")
    if split in ("validation", "test"):
        return f"{split}/{rest}"
    group = next((group for group, names in GROUPS.items() if name in names), "train")
    return group and f"{group}/{name}"


class _Events:
    """The file or object of some events; an object is rewritten whole every two minutes.

    tensorboardX's own writer ends its thread at the first failure, and then training waits for
    that thread for ever.
    """

    def __init__(self, name: str) -> None:
        self._path, self._pending = epath.Path(name.removeprefix(f"{SCHEME}:")), b""

    def write(self, data: bytes) -> None:
        self._pending += data

    def flush(self) -> None:
        try:
            append_bytes(self._path, self._pending)
            self._pending = b""
        except Exception as error:
            warnings.warn(f"the events for TensorBoard were not written: {error}", stacklevel=2)

    close = flush


class _EventsFactory:
    """What tensorboardX asks of a kind of storage."""

    open = _Events

    def directory_check(self, path: str) -> None:
        """Does nothing: the work directory is there, and an object store has none to make."""
