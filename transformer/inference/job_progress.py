"""Reports how far a job is, how fast it is and when it will be done."""

import time
from collections.abc import Callable

from transformer import console
from transformer.console import LiveLine, Pace, format_seconds, quantity
from transformer.data.files.text import Lines
from transformer.inference.chunks import Chunk


class JobProgress:
    """Counts finished chunks and reports them.

    files: those that are read, for warnings about their lines. say: prints a line that stays.
    line: shows the current state; None to show nothing. clock: monotonic seconds.
    """

    def __init__(
        self,
        files: list[Lines],
        say: Callable[[str], None],
        line: LiveLine | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files, self._say, self._line, self._clock = files, say, line, clock
        self._start = clock()
        # Both since the end of the first chunk, which compiles.
        self._line_pace, self._fraction_pace = Pace(clock), Pace(clock)
        self._num_lines = self._num_empty = self._num_done_before = 0
        self._fraction = 0.0  # of the input that has been read
        self._own_lines = self._own_tokens = 0  # of this host
        self._warned: dict[str, int] = {}
        self.longest = 0.0  # seconds per chunk, at most

    def add(self, chunk: Chunk, was_finished: bool, num_tokens: int | None, seconds: float) -> None:
        """Counts a chunk.

        was_finished: whether an earlier start had finished it. num_tokens: target tokens that this
        host made in `seconds`; None if it was finished or is another host's.
        """
        count, fraction = len(chunk.lines), chunk.fraction_read or 0.0
        self._num_lines = chunk.end
        self._num_empty += sum(not line.strip() for line in chunk.lines)
        if was_finished:
            self._num_done_before += count
        else:
            self._line_pace.add(count)
            self._fraction_pace.add(fraction - self._fraction)
        self._fraction = fraction
        if not self._warned:  # at the first bad line, not after hours
            self._warn()
        if num_tokens is not None:
            self._own_lines += count
            self._own_tokens += num_tokens
            self.longest = max(self.longest, seconds)
            if self._line and self._line.is_due:
                self._line.show(self._text())

    def _warn(self) -> None:
        repairs = {name: count for file in self._files for name, count in file.repairs().items()}
        for name, count in repairs.items():
            if self._warned.get(name) != count:
                self._say(f"warning: {count:,} {name}")
        self._warned = repairs

    def _text(self) -> str:
        """As "1,234,567 lines  12.3%  2,345 lines/s  45,678 tokens/s  1 h 02 min left"."""
        parts = [f"{self._num_lines:>11,} lines"]
        if self._fraction:
            parts.append(f"{self._fraction:6.1%}")
        rate = self._rate()
        parts.append(f"{quantity(round(rate), 'line')}/s")
        if self._own_tokens:
            parts.append(f"{rate * self._own_tokens / self._own_lines:,.0f} tokens/s")
        parts.append(self._fraction_pace.time_left(1 - self._fraction))
        return "  ".join(filter(None, parts))

    def _rate(self) -> float:
        """Returns lines per second of all hosts, without the first chunk if there are others."""
        num_lines = self._num_lines - self._num_done_before
        return self._line_pace.per_second() or num_lines / max(self._clock() - self._start, 1e-9)

    def finish(self, output: str = "") -> None:
        """Reports the whole job; one to a stream (output "") only if it took long."""
        self._warn()
        seconds = self._clock() - self._start
        if not output and seconds < console.SHOW_EVERY[1]:
            return
        text = f"{quantity(self._num_lines, 'line')} in {format_seconds(seconds)}"
        if self._num_lines > self._num_done_before:
            text += f", {quantity(round(self._rate()), 'line')}/s"
        for count, what in (
            (self._num_done_before, "already done"),
            (self._num_empty, "empty"),
        ):
            text += f"; {count:,} {what}" if count else ""
        self._say(f"{text}: {output}" if output else text)
