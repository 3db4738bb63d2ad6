"""What a run shows while it goes: one live line on a terminal, plain lines elsewhere, and its logs."""

import sys
import time

from tensorboardX import SummaryWriter


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
