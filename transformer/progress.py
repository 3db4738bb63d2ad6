"""What a run shows and logs while it goes: a live line on a terminal, plain lines elsewhere."""

import sys
import time
from collections import Counter, deque
from contextlib import contextmanager

import jax
from tensorboardX import SummaryWriter

from transformer.metrics import perplexity

MAX_IN_FLIGHT = 2  # steps given to the device and not waited for: it is never idle nor far behind


class Meter:
    """Sums of the steps since the last reading; fetched late, so that the device never waits."""

    def __init__(self, step):
        self._pending, self._sums = deque(), Counter()
        self._step, self._since = step, time.monotonic()

    def add(self, sums):
        """Takes the sums of a step, which the device may still be computing."""
        self._pending.append(sums)
        self._settle(MAX_IN_FLIGHT)

    def _settle(self, num_left):
        while len(self._pending) > num_left:
            values = jax.device_get(self._pending.popleft())
            self._sums.update({name: float(value) for name, value in values.items()})

    def read(self, step):
        """Means since the last reading, and the pace."""
        self._settle(0)
        sums, seconds = self._sums, time.monotonic() - self._since
        metrics = {
            "loss": sums["loss"] / sums["tokens"],
            "perplexity": perplexity(sums["nll"], sums["tokens"]),
            "gradient_norm": sums["gradient_norm"] / (step - self._step),
            "tokens_per_second": sums["tokens"] / seconds,
        }
        self._sums, self._step, self._since = Counter(), step, time.monotonic()
        return metrics

    @contextmanager
    def paused(self):
        """What is done inside is not training and does not count for the pace."""
        self._settle(0)
        start = time.monotonic()
        yield
        self._since += time.monotonic() - start


class Progress:
    """Shows and logs the metrics of a run: metrics.jsonl and TensorBoard in the work directory."""

    def __init__(self, workdir, num_steps, first_step, stream=sys.stderr):
        self._workdir, self._num_steps, self._stream = workdir, num_steps, stream
        self._events = SummaryWriter(str(workdir.path), purge_step=first_step)
        self._live = stream.isatty()
        self._first_step, self._start = first_step, None
        self._line_is_open = False

    def log(self, step, metrics):
        """Writes `metrics` (name -> number) of a step to metrics.jsonl and TensorBoard."""
        self._workdir.append_metrics({"step": step, **metrics})
        for name, value in metrics.items():
            self._events.add_scalar(name, value, step)

    def show(self, step, metrics):
        """The line of a training step: step, loss, learning rate, tokens/s, time left."""
        text = (
            f"step {step:>6,}/{self._num_steps:,}  loss {metrics['loss']:.4f}  "
            f"lr {metrics['learning_rate']:.2e}  {metrics['tokens_per_second']:>9,.0f} tokens/s"
            f"{self._time_left(step)}"
        )
        if not self._live:
            return self.say(text)
        print(f"\r\x1b[2K{text}", end="", file=self._stream, flush=True)
        self._line_is_open = True

    def say(self, text):
        """A line that stays."""
        if self._line_is_open:
            print(file=self._stream)
            self._line_is_open = False
        print(text, file=self._stream, flush=True)

    def _time_left(self, step):
        """By the mean pace since the second report, as the first step compiles."""
        now = time.monotonic()
        if self._start is None:
            self._start, self._first_step = now, step
            return ""
        seconds = (now - self._start) / max(1, step - self._first_step) * (self._num_steps - step)
        return f"  {format_seconds(seconds)} left"

    def close(self):
        self._events.close()
        if self._line_is_open:
            self.say("")


def format_seconds(seconds):
    """3725 -> "1 h 02 min"."""
    minutes, seconds = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes} min {seconds:02} s" if minutes else f"{seconds} s"
