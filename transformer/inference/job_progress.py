"""How far a job is, how fast, and when it will be done: shown now and then, and summed up."""

import time

from transformer.console import Pace, format_seconds

SHOW_EVERY = 10  # seconds


class JobProgress:
    """Counts chunks. files: the `Lines` they are of; say: tells what stays.

    line: a `LiveLine` for what does not, None to show nothing; clock: seconds that only grow.
    """

    def __init__(self, files, say, line=None, clock=time.monotonic):
        self._files, self._say, self._line, self._clock = files, say, line, clock
        self._start = clock()
        # Both since the end of this host's first chunk, which compiles.
        self._line_pace, self._share_pace = Pace(clock), Pace(clock)
        self._shown = self._start
        self._num_lines = self._num_empty = self._num_done_before = 0
        self._share = 0.0  # of the input
        self._own = (0, 0)  # lines and pieces of this host
        self._warned = {}
        self.longest = 0.0  # seconds of a chunk

    def add(self, chunk, is_finished, num_pieces, seconds):
        """Takes a chunk in. is_finished: before now; num_pieces: None if another host does it."""
        count, share = len(chunk.lines), chunk.share or 0.0
        self._num_lines = chunk.end
        self._num_empty += sum(not line.strip() for line in chunk.lines)
        if is_finished:
            self._num_done_before += count
        else:
            self._line_pace.add(count)
            self._share_pace.add(share - self._share)
        self._share = share
        if not self._warned:  # at the first fault, not after hours
            self._warn()
        if num_pieces is not None:
            self._own = self._own[0] + count, self._own[1] + num_pieces
            self.longest = max(self.longest, seconds)
            self._line_pace.start()
            self._share_pace.start()
            self._show()

    def _warn(self):
        notes = {note: count for file in self._files for note, count in file.repairs().items()}
        for note, count in notes.items():
            if self._warned.get(note) != count:
                self._close_line()
                self._say(f"warning: {count:,} {note}")
        self._warned = notes

    def _show(self):
        now = self._clock()
        is_time = now - self._shown >= (1 if self._line and self._line.is_live else SHOW_EVERY)
        if self._line and is_time:
            self._shown = now
            self._line.show(self._text(now))

    def _text(self, now):
        """As "1,234,567 lines  12.3%  2,345 lines/s  45,678 pieces/s  1 h 02 min left"."""
        parts = [f"{self._num_lines:>11,} lines"]
        if self._share:
            parts.append(f"{self._share:6.1%}")
        rate = self._rate(now)
        own_lines, own_pieces = self._own
        parts += [f"{rate:,.0f} lines/s", f"{rate * own_pieces / own_lines:,.0f} pieces/s"]
        parts.append(self._share_pace.time_left(1 - self._share))
        return "  ".join(filter(None, parts))

    def _rate(self, now):
        """Lines a second, of all hosts, without the first chunk if there are others."""
        num_lines = self._num_lines - self._num_done_before
        return self._line_pace.per_second() or num_lines / max(now - self._start, 1e-9)

    def finish(self, output=""):
        """Tells of all of it; of a stream ("") only if it took long."""
        self._close_line()
        self._warn()
        now = self._clock()
        if not output and now - self._start < SHOW_EVERY:
            return
        text = f"{self._num_lines:,} lines in {format_seconds(now - self._start)}"
        if self._num_lines > self._num_done_before:
            text += f", {self._rate(now):,.0f} lines/s"
        for count, what in (
            (self._num_done_before, "had been done before"),
            (self._num_empty, "were empty"),
        ):
            text += f"; {count:,} {what}" if count else ""
        self._say(f"{text}: {output}" if output else text)

    def _close_line(self):
        if self._line:
            self._line.close()
