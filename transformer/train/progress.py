"""What a run shows and logs while it goes: a live line on a terminal, plain lines elsewhere."""

import math
import sys
import time
import warnings
from collections import Counter, deque
from contextlib import contextmanager

import jax
from tensorboardX import SummaryWriter
from tensorboardX.record_writer import register_writer_factory

from transformer.console import LiveLine, Pace
from transformer.model.loss import perplexity
from transformer.storage import GrowingObject

MAX_IN_FLIGHT = 2  # steps given to the device and not waited for: it is never idle nor far behind


class Meter:
    """Sums of the steps since the last reading; fetched late, so that the device never waits.

    flops_per_token: the model's arithmetic for a target token; peak_flops: what all devices could
    do in a second, 0 if nobody knows.
    """

    def __init__(self, step, flops_per_token=0.0, peak_flops=0.0):
        self._flops_per_token, self._peak_flops = flops_per_token, peak_flops
        self._pending = deque()
        self._restart(step)
        self.skipped = []  # steps whose update was left out, for who asks to take them away
        self.num_skipped_in_a_row = 0
        self.num_stopping = 0.0  # hosts that were told to stop

    def _restart(self, step):
        self._sums, self._step = Counter(), step
        self._since, self._waited = time.monotonic(), 0.0

    def add(self, step, sums):
        """Takes the sums of a step, which the device may still be computing."""
        self._pending.append((step, sums))
        self.settle(MAX_IN_FLIGHT)

    def settle(self, num_left=0):
        """Waits until at most `num_left` steps are unfinished, and takes in the others' sums."""
        while len(self._pending) > num_left:
            step, sums = self._pending.popleft()
            values = {name: float(value) for name, value in jax.device_get(sums).items()}
            self.num_stopping = values.pop("stopping", 0.0)
            if values["skipped"]:
                self.skipped.append(step)
            self.num_skipped_in_a_row = self.num_skipped_in_a_row + 1 if values["skipped"] else 0
            self._sums.update(values)

    def read(self, step):
        """Means since the last reading, the pace, and the share of time spent waiting for data."""
        self.settle()
        sums, seconds = self._sums, time.monotonic() - self._since
        num_tokens = sums["tokens"] or math.nan  # nan: every update was skipped
        metrics = {
            "loss": sums["loss"] / num_tokens,
            "perplexity": perplexity(sums["nll"], num_tokens),
            "gradient_norm": sums["gradient_norm"] / max(1, step - self._step - sums["skipped"]),
            "tokens_per_second": sums["tokens"] / seconds,
            "input_wait": self._waited / seconds,
            "skipped": sums["skipped"],
        }
        if self._peak_flops:
            pace = self._flops_per_token * metrics["tokens_per_second"]
            metrics["utilisation"] = pace / self._peak_flops
        self._restart(step)
        return metrics

    @contextmanager
    def waiting(self):
        """What is done inside keeps the devices waiting."""
        start = time.monotonic()
        yield
        self._waited += time.monotonic() - start

    @contextmanager
    def paused(self):
        """What is done inside is not training and does not count for the pace."""
        self.settle()
        start = time.monotonic()
        yield
        self._since += time.monotonic() - start


class _EventsObject(GrowingObject):
    """TensorBoard's events in an object store, written anew every two minutes.

    tensorboardX's own way there ends its thread at the first failure, and then the training waits
    for it for ever.
    """

    def flush(self):
        try:
            super().flush()
        except Exception as error:
            warnings.warn(f"the events for TensorBoard were not written: {error}", stacklevel=2)

    close = flush


class _EventsObjects:
    """How tensorboardX opens them."""

    open = _EventsObject

    def directory_check(self, path):
        """There are no directories to make."""


register_writer_factory("gs", _EventsObjects())


class Progress:
    """Shows and logs the metrics of a run: metrics.jsonl and TensorBoard in the work directory."""

    def __init__(self, workdir, num_steps, first_step, stream=sys.stderr):
        self._workdir, self._num_steps = workdir, num_steps
        self._line = LiveLine(stream)
        self._events = SummaryWriter(
            str(workdir.path), purge_step=first_step, write_to_disk=workdir.writes
        )
        self._step, self._pace = first_step, Pace()  # of the steps since the first report

    def log(self, step, metrics):
        """Writes `metrics` (name -> number) of a step to metrics.jsonl and TensorBoard."""
        self._workdir.append_metrics({"step": step, **metrics})
        for name, value in metrics.items():
            self._events.add_scalar(name, value, step)

    def show(self, step, metrics):
        """The line of a training step: step, loss, learning rate, tokens/s, time left."""
        self._pace.add(step - self._step)
        self._pace.start()
        self._step = step
        time_left = self._pace.time_left(self._num_steps - step)
        text = (
            f"step {step:>6,}/{self._num_steps:,}  loss {metrics['loss']:.4f}  "
            f"lr {metrics['learning_rate']:.2e}  {metrics['tokens_per_second']:>9,.0f} tokens/s"
            f"{_shares(metrics)}{time_left and f'  {time_left}'}"
        )
        self._line.show(text)

    def say(self, text):
        """A line that stays."""
        self._line.say(text)

    def close(self):
        self._events.close()
        self._line.close()


def _shares(metrics):
    """Utilisation where it is known, waiting and skipped steps where they are worth a word."""
    text = f"  {metrics['utilisation']:.1%} of bf16 peak" if "utilisation" in metrics else ""
    if metrics["input_wait"] > 0.01:
        text += f"  {metrics['input_wait']:.0%} waiting for data"
    return text + (f"  {metrics['skipped']:.0f} skipped" if metrics["skipped"] else "")
