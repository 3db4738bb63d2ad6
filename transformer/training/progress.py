"""Shows, logs and draws the metrics of a run: a live line on a terminal, plain lines elsewhere."""

import json
import math
import platform
import socket
import struct
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
from tensorboardX import summary

# pyrefly: ignore[missing-module-attribute]: protobuf makes the classes when it is imported
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.record_writer import masked_crc32c

import transformer
from transformer.config import Config
from transformer.console import Pace, live_line, phase, say
from transformer.evaluation import plots
from transformer.workdir import WorkDir

ROOT = Path(transformer.__file__).parents[1]
PACKAGES = "jax jaxlib flax optax orbax-checkpoint numpy sacrebleu sentencepiece"
OnReport = Callable[[int, dict[str, float]], object]
DRAWING_EVERY = 60.0  # seconds, at least, between two drawings of the curves
NUM_SAMPLES = 8  # per validation, for TensorBoard; samples.txt has 20
GROUPS = {  # of the names that do not begin with that of a split, and are not of "train"
    "system": ("tokens_per_second", "input_wait", "utilisation", "device_memory_gib"),
    "progress": ("epoch", "seconds", "device_hours", "target_tokens"),
    "": ("num_train_steps", "selection_score"),  # not for TensorBoard
}


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
        self._line = live_line
        self._line.is_silent |= not workdir.writes
        self._clock = self._line.clock
        self._last_step, self._pace = step, Pace(self._clock)  # since the first line
        self._last_drawn = self._clock()
        self._events = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}"
        self._add_event(step + 1, file_version="brain.Event:2")
        # TensorBoard then forgets the events of later steps, which an interrupted run left.
        self._add_event(step + 1, session_log=SessionLog(status=SessionLog.START))
        if not step:
            rows = [f"|{name}|{json.dumps(value)}|" for name, value in config.values().items()]
            table = "\n".join(["|setting|value|", "|-|-|", *rows])
            self._add_event(0, summary=summary.text("settings", table))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends the metrics of a step to metrics.jsonl and TensorBoard."""
        for name, value in metrics.items():
            if tag := tag_of(name):
                self._add_event(step, summary=summary.scalar(tag, value))
        self._workdir.append_metrics({"step": step, **metrics})
        if self._on_report:
            self._on_report(step, dict(metrics))

    def log_samples(self, step: int, samples: Sequence[str]) -> None:
        """Appends outputs for the validation set to samples.txt and TensorBoard."""
        text = textwrap.dedent("\n\n".join(samples[:NUM_SAMPLES]))
        text = textwrap.indent(text, "    ")  # which is code in Markdown
        self._add_event(step, summary=summary.text("samples", text))
        self._workdir.append_samples(step, samples[:20])

    def _add_event(self, step: int, **content: Any) -> None:
        """Adds a record for TensorBoard: length, checksum, event, checksum."""
        event = Event(wall_time=time.time(), step=step, **content).SerializeToString()
        length = struct.pack("<Q", len(event))
        sums = [struct.pack("<I", masked_crc32c(data)) for data in (length, event)]
        self._workdir.append_events(self._events, length + sums[0] + event + sums[1])

    def show(self, step: int, metrics: Mapping[str, float], *, is_passing: bool = False) -> None:
        """Shows the line of a training step: step, loss, learning rate, tokens/s, time left.

        Utilisation is added where it is known, waiting and skipped steps where there are any.
        is_passing: whether it is shown because the line `is_due`, and not a report.
        """
        self._pace.add(step - self._last_step)
        self._last_step = step
        rate, speed = metrics["learning_rate"], metrics["tokens_per_second"]
        words = [f"step {step:>6,}/{self._num_steps:,}"]
        if not (math.isnan(metrics["loss"]) and is_passing):
            words.append(f"loss {metrics['loss']:.4f}")
        words.append(f"lr {rate:.2e}  {speed:>7,.0f} tokens/s")
        words.append(self._pace.time_left(self._num_steps - step))
        if "utilisation" in metrics:
            words.append(f"{metrics['utilisation']:.1%} of bf16 peak")
        if metrics["input_wait"] > 0.01:
            words.append(f"{metrics['input_wait']:.0%} waiting for data")
        if metrics["skipped"]:
            words.append(f"{metrics['skipped']:.0f} skipped")
        self._line.show("  ".join(filter(None, words)), is_passing=is_passing)

    def draw_curves(self, *, is_last: bool = False) -> None:
        """Draws curves.png from what was logged so far, if it is the last time or long ago.

        A failure costs the run nothing.
        """
        is_due = is_last or self._clock() >= self._last_drawn + DRAWING_EVERY
        if not (self._workdir.writes and is_due):
            return
        try:
            records, path = self._workdir.read_metrics(), self._workdir / "curves.png"
            with phase("drawing the curves"):
                plots.plot_curves(records, path, str(self._workdir.path))
        except Exception as error:  # any type: a run is worth more than its picture
            if is_last:
                say(f"curves.png was not drawn: {error}")
        self._last_drawn = self._clock()

    def close(self) -> None:
        """Flushes metrics and events, and leaves the last line as it is; raises OSError."""
        self._workdir.flush()
        self._line.close()


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
