"""A stream that is a terminal."""

import io

from transformer.terminal import ERASE


class TerminalBytes(io.BytesIO):
    """Collects what is written to the bytes of a terminal."""

    def isatty(self):
        return True


class Terminal(io.StringIO):
    """Collects what is written to a terminal of 80 columns."""

    def isatty(self):
        return True

    def row(self):
        """What the last row shows."""
        return self.getvalue().rpartition("\n")[2].rpartition(ERASE)[2]
