"""Shows and logs the metrics of a run: a live line on a terminal, plain lines elsewhere."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TextIO

from transformer.console import Pace, live_line
from transformer.terminal import LiveLine
from transformer.training.event_files import make_event_writer
from transformer.workdir import WorkDir

OnReport = Callable[[int, dict[str, float]], object]


class Progress:
    """Shows metrics and logs them to metrics.jsonl and TensorBoard.

    num_steps: of the whole run, to estimate the time left.
    num_steps_done: the steps before this start; events of that step and later ones are forgotten.
    on_report: called with (step, metrics) for each record, on the host that writes.
    stream: where to show them; None: standard error, on the host that writes.
    clock: seconds, from any start.
    """

    def __init__(
        self,
        workdir: WorkDir,
        num_steps: int,
        num_steps_done: int,
        on_report: OnReport | None = None,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._workdir, self._num_steps = workdir, num_steps
        self._on_report = on_report if workdir.writes else None
        if stream is None and not workdir.writes:
            stream = open(os.devnull, "w")  # noqa: SIM115
        self._line = LiveLine(stream) if stream else live_line()
        self._events = make_event_writer(workdir, num_steps_done)
        self._last_shown = num_steps_done
        self._pace = Pace(clock)  # of the steps since the first line

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Appends the metrics of a step to metrics.jsonl and TensorBoard."""
        self._workdir.append_metrics({"step": step, **metrics})
        for name, value in metrics.items():
            self._events.add_scalar(name, value, step)
        if self._on_report:
            self._on_report(step, dict(metrics))

    def show(self, step: int, metrics: Mapping[str, float]) -> None:
        """Shows the line of a training step: step, loss, learning rate, tokens/s, time left."""
        self._pace.add(step - self._last_shown)
        self._pace.start()
        self._last_shown = step
        time_left = self._pace.time_left(self._num_steps - step)
        text = (
            f"step {step:>6,}/{self._num_steps:,}  loss {metrics['loss']:.4f}  "
            f"lr {metrics['learning_rate']:.2e}  {metrics['tokens_per_second']:>9,.0f} tokens/s"
            f"{_format_shares(metrics)}{time_left and f'  {time_left}'}"
        )
        self._line.show(text)

    def say(self, text: str) -> None:
        """Prints lines that stay above the live line."""
        self._line.say(text)

    def close(self) -> None:
        """Flushes the events and leaves the last line as it is."""
        self._events.close()
        self._line.close()


def _format_shares(metrics: Mapping[str, float]) -> str:
    """Returns utilisation where it is known, and waiting and skipped steps where there are any."""
    text = f"  {metrics['utilisation']:.1%} of bf16 peak" if "utilisation" in metrics else ""
    if metrics["input_wait"] > 0.01:
        text += f"  {metrics['input_wait']:.0%} waiting for data"
    return text + (f"  {metrics['skipped']:.0f} skipped" if metrics["skipped"] else "")
